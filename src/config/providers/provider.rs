//! The three providers that come with Kafka.

use std::path::{Component, Path, PathBuf};

use regex::Regex;

use crate::config::definition::Reader;
use crate::config::env::Environment;
use crate::config::properties;
use crate::small_file;

const PACKAGE: &str = "org.apache.kafka.common.config.provider.";
const ALLOWED_PATHS: &str = "param.allowed.paths";
const ALLOWLIST: &str = "param.allowlist.pattern";

#[derive(Clone)]
pub(super) enum Provider {
    /// Keys of a properties file.
    File(AllowedPaths),
    /// Whole files of a folder.
    Directory(AllowedPaths),
    EnvVar {
        variables: Environment,
        allowed: Option<Regex>,
    },
}

impl Provider {
    /// `None` after a fault.
    pub(super) fn read(reader: &mut Reader<'_>, environment: &Environment) -> Option<Self> {
        let class = reader.optional_text("class")?;
        match class.strip_prefix(PACKAGE).unwrap_or(&class) {
            "FileConfigProvider" => Some(Self::File(AllowedPaths::read(reader)?)),
            "DirectoryConfigProvider" => Some(Self::Directory(AllowedPaths::read(reader)?)),
            "EnvVarConfigProvider" => Some(Self::EnvVar {
                variables: environment.clone(),
                allowed: allowlist(reader)?,
            }),
            _ => {
                reader.fault("class", format!("{class:?} is no config provider that runs here; there are FileConfigProvider, DirectoryConfigProvider and EnvVarConfigProvider"));
                None
            }
        }
    }

    /// What it knows, or why not; causes never hold what a file holds.
    pub(super) fn value(&self, path: Option<&str>, key: &str) -> Result<String, String> {
        match (self, path) {
            (Self::File(_) | Self::Directory(_), None | Some("")) => {
                Err("there is no path in it; write ${provider:path:key}".into())
            }
            (Self::File(allowed), Some(path)) => {
                let path = allowed.checked(path)?;
                of_file(&path, key)
            }
            (Self::Directory(allowed), Some(path)) => {
                let path = allowed.checked(path)?;
                if Path::new(key).file_name().is_none_or(|name| name != key) {
                    return Err(format!("{key:?} is no file's name"));
                }
                text(&path.join(key))
            }
            (Self::EnvVar { .. }, Some(path)) if !path.is_empty() => {
                Err("there is a path in it; write ${provider:variable}".into())
            }
            (Self::EnvVar { variables, allowed }, _) => {
                if allowed.as_ref().is_some_and(|it| !it.is_match(key)) {
                    return Err(format!("{key} is not in {ALLOWLIST} of the provider"));
                }
                let value = variables.get(key).map(str::to_owned);
                value.ok_or_else(|| format!("the variable {key} is not set"))
            }
        }
    }
}

fn of_file(path: &Path, key: &str) -> Result<String, String> {
    let shown = path.display();
    let mut properties = properties::parse(&text(path)?)
        .map_err(|message| format!("{shown} is no properties file: {message}"))?;
    let value = properties.remove(key);
    value.ok_or_else(|| format!("{shown} has no key {key}"))
}

fn text(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let bytes = small_file::read(&shown.to_string()).map_err(|told| format!("{shown} {told}"))?;
    String::from_utf8(bytes).map_err(|_| format!("{shown} is no text in UTF-8"))
}

fn allowlist(reader: &mut Reader<'_>) -> Option<Option<Regex>> {
    let Some(pattern) = reader.optional_text(ALLOWLIST) else {
        return Some(None);
    };
    // Of the whole name, as in Kafka.
    match Regex::new(&format!("^(?:{pattern})$")) {
        Ok(pattern) => Some(Some(pattern)),
        Err(_) => {
            reader.fault(
                ALLOWLIST,
                "is not a regular expression that is understood here",
            );
            None
        }
    }
}

/// What may be read; all if it is `None`.
#[derive(Clone)]
pub(super) struct AllowedPaths(Option<Vec<PathBuf>>);

impl AllowedPaths {
    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        if !reader.is_set(ALLOWED_PATHS) {
            return Some(Self(None));
        }
        let mut allowed = Vec::new();
        for path in reader.list(ALLOWED_PATHS) {
            if !Path::new(&path).is_absolute() {
                reader.fault(ALLOWED_PATHS, format!("{path:?} is not an absolute path"));
                return None;
            }
            allowed.push(normalized(&path));
        }
        Some(Self(Some(allowed)))
    }

    /// Links are followed: a secret that Kubernetes mounts is one.
    fn checked(&self, path: &str) -> Result<PathBuf, String> {
        let Some(allowed) = &self.0 else {
            return Ok(path.into());
        };
        let normalized = normalized(path);
        if allowed.iter().any(|it| normalized.starts_with(it)) {
            Ok(normalized)
        } else {
            Err(format!(
                "{path} is not below {ALLOWED_PATHS} of the provider"
            ))
        }
    }
}

/// Without `.` and `..`.
fn normalized(path: &str) -> PathBuf {
    let mut normalized = PathBuf::new();
    for component in Path::new(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                normalized.pop();
            }
            other => normalized.push(other),
        }
    }
    normalized
}
