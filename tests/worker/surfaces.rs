//! All that a worker shows of itself, and how to find a text in it in whatever
//! form.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use reqwest::{Method, StatusCode};
use serde_json::Value;
use sluice_test_support::collector::Collector;
use sluice_test_support::worker::Worker;

use crate::api::Api;
use crate::stage::BINARY;

/// What is read from of the worker, and of each connector.
const PATHS: [&str; 12] = [
    "/",
    "/admin/loggers",
    "/connector-plugins",
    "/connector-plugins?connectorsOnly=false",
    "/connector-plugins/http/config",
    "/connector-plugins/kafka/config",
    "/connectors",
    "/connectors?expand=status&expand=info",
    "/health",
    "/health/live",
    "/health/ready",
    "/metrics",
];
const PATHS_OF_A_CONNECTOR: [&str; 7] = [
    "",
    "/config",
    "/status",
    "/tasks",
    "/tasks/0/status",
    "/topics",
    "/offsets",
];

pub const VALIDATE: &str = "PUT /connector-plugins/.../validate";
/// Names, attributes, events, status texts and resources of spans.
pub const SPANS: &str = "spans";
/// Names, descriptions, attributes and resources of metrics.
pub const METRICS: &str = "pushed metrics";

/// What is shorter is in every other text of base64.
const LEAST: usize = 6;

/// The variables that a worker is started with.
pub type Environment<'a> = &'a [(&'a str, &'a str)];

/// Texts by where they are shown.
pub struct Surfaces(Vec<(String, String)>);

impl Surfaces {
    /// What a worker that runs answers and what commands say of it.
    pub async fn of(worker: &Worker, connectors: &[&str], env: Environment<'_>) -> Result<Self> {
        let api = Api::of(worker).await?;
        let mut surfaces = Self(Vec::new());
        let of_connectors = connectors.iter().flat_map(|name| {
            let path = move |end: &&str| format!("/connectors/{name}{end}");
            PATHS_OF_A_CONNECTOR.iter().map(path)
        });
        for path in PATHS.map(str::to_owned).into_iter().chain(of_connectors) {
            let (_, text) = api.text(Method::GET, &path).await?;
            surfaces.add(&format!("GET {path}"), text);
        }
        for arguments in [
            vec!["status", "--url", &api.url],
            vec!["status", "--url", &api.url, "--json"],
            vec!["plugins"],
            vec!["plugins", "--json"],
        ] {
            surfaces.run(&arguments, &[])?;
        }
        surfaces.validate(worker, &api).await?;
        let files = files(worker)?;
        let files: Vec<&str> = files.iter().filter_map(|path| path.to_str()).collect();
        let check = [&["check"], files.as_slice()].concat();
        surfaces.run(&check, env)?;
        Ok(surfaces)
    }

    pub fn from_text(place: &str, text: String) -> Self {
        Self(vec![(place.to_owned(), text)])
    }

    /// What it has printed so far: once it has ended, all of it.
    pub fn printed(&mut self, worker: &Worker) -> Result<()> {
        self.add("standard output", worker.stdout()?);
        self.add("standard error", worker.stderr()?);
        Ok(())
    }

    /// What it has exported so far: once it has ended, all of it. Only the
    /// collector's own key goes with it, as a header.
    pub fn exported(&mut self, collector: &Collector, key: &str) -> Result<()> {
        self.add(SPANS, collector.text_of_traces());
        self.add(METRICS, collector.text_of_metrics());
        let (keys, others): (Vec<_>, Vec<_>) =
            collector.headers().into_iter().partition(|it| it == key);
        ensure!(!keys.is_empty(), "nothing came with {key}: {others:?}");
        self.add("headers of exports", others.join("\n"));
        Ok(())
    }

    pub fn add(&mut self, place: &str, text: String) {
        self.0.push((place.to_owned(), text));
    }

    /// What is told of each connector's file by who validates it.
    async fn validate(&mut self, worker: &Worker, api: &Api) -> Result<()> {
        for path in files(worker)?.into_iter().filter(|it| is_json(it)) {
            let text = fs::read_to_string(path)?;
            let config: Value = serde_json::from_str(&text)?;
            let class = config["connector.class"].as_str().context("no class")?;
            let path = format!("/connector-plugins/{class}/config/validate");
            let (code, answer) = api.put(&path, text).await?;
            ensure!(code == StatusCode::OK, "{path} is {code}: {answer}");
            self.add(VALIDATE, answer);
        }
        Ok(())
    }

    /// Runs a command; that of a failed connector ends with an error, and says
    /// what is wanted all the same.
    fn run(&mut self, arguments: &[&str], env: Environment<'_>) -> Result<()> {
        let mut command = Command::new(BINARY);
        command
            .args(arguments)
            .env_clear()
            .envs(env.iter().copied());
        let output = command.output().context("cannot start sluice")?;
        let said = [output.stdout, output.stderr].concat();
        let place = format!("sluice {}", arguments[0]);
        let place = match arguments.contains(&"--json") {
            true => format!("{place} --json"),
            false => place,
        };
        self.add(&place, String::from_utf8_lossy(&said).into_owned());
        Ok(())
    }

    /// Where a text is shown, in any form.
    pub fn places(&self, wanted: &str) -> Vec<&str> {
        let forms = forms(wanted);
        let shown = self.0.iter().filter(|(_, text)| shows(text, &forms));
        shown.map(|(place, _)| place.as_str()).collect()
    }

    pub fn hide(&self, secrets: &[&str]) -> Result<()> {
        for secret in secrets {
            let forms = forms(secret);
            for (place, text) in &self.0 {
                let line = text.lines().find(|line| shows(line, &forms));
                ensure!(line.is_none(), "{place} shows {secret}: {line:?}");
            }
        }
        Ok(())
    }

    /// A value that is no secret is found in all these places, as a secret
    /// would be.
    pub fn show(&self, value: &str, expected: &[&str]) -> Result<()> {
        let places = self.places(value);
        for place in expected {
            ensure!(
                places.contains(place),
                "{place} shows no {value}: {places:?}"
            );
        }
        Ok(())
    }
}

/// `worker.properties --connector NAME.json ...`
fn files(worker: &Worker) -> Result<Vec<PathBuf>> {
    let mut arguments = vec![worker.folder().join("worker.properties")];
    for entry in fs::read_dir(worker.folder())? {
        let path = entry?.path();
        if is_json(&path) {
            arguments.extend([PathBuf::from("--connector"), path]);
        }
    }
    Ok(arguments)
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|it| it == "json")
}

/// Also where more signs have a backslash than need one, or more than one: in
/// JSON that is a text in other JSON.
fn shows(text: &str, forms: &[String]) -> bool {
    let plain = |text: &str| text.replace('\\', "");
    let bare = plain(text);
    forms
        .iter()
        .any(|form| text.contains(form) || bare.contains(&plain(form)))
}

/// As it is, in an address, in a form, in JSON, and inside of base64.
fn forms(text: &str) -> Vec<String> {
    let encoded = |plain: &[u8], space: &str| -> String {
        let byte = |byte: &u8| match byte {
            b' ' => space.to_owned(),
            _ if byte.is_ascii_alphanumeric() || plain.contains(byte) => char::from(*byte).into(),
            _ => format!("%{byte:02X}"),
        };
        text.as_bytes().iter().map(byte).collect()
    };
    let mut forms = vec![
        text.to_owned(),
        encoded(b"-._~", "%20"),
        encoded(b"-._*", "+"),
        // As the query of an address is sent.
        encoded(b"-._~!$&()*+,/:;=?@", "%20"),
        Value::from(text).to_string().trim_matches('"').to_owned(),
    ];
    for alphabet in [STANDARD, URL_SAFE] {
        let inside = (0..3).map(|shift| inside_base64(&alphabet, shift, text));
        forms.extend(inside.filter(|form| form.len() >= LEAST));
    }
    forms
}

/// The letters of base64 that depend on this text alone, when so many bytes
/// (modulo 3) stand before it: `alice:` before a password.
fn inside_base64(alphabet: &Alphabet, shift: usize, text: &str) -> String {
    let bytes = [&b"\0\0"[..shift], text.as_bytes()].concat();
    let letters = GeneralPurpose::new(alphabet, NO_PAD).encode(&bytes);
    let (begin, end) = ((shift * 8).div_ceil(6), bytes.len() * 8 / 6);
    letters[begin..end].to_owned()
}

#[test]
fn a_text_is_found_in_every_form() {
    use base64::engine::general_purpose;
    let secret = "hush & d/\"\u{e9}?>";
    for (form, text) in [
        ("as it is", secret.to_owned()),
        (
            "in an address",
            "x?y=hush%20%26%20d%2F%22%C3%A9%3F%3E&z".into(),
        ),
        ("in a query", "x?y=hush%20&%20d/%22%C3%A9?%3E&z".into()),
        ("in a form", "x=hush+%26+d%2F%22%C3%A9%3F%3E&z".into()),
        ("in JSON", format!("{}", serde_json::json!({"x": secret}))),
        (
            "in JSON as some write it",
            r#"{"x":"hush & d\/\"é?>"}"#.into(),
        ),
        (
            "in JSON that is in JSON",
            r#"{"x":"{\"y\":\"hush%20&%20d\\/%22%C3%A9?%3E\"}"}"#.into(),
        ),
    ] {
        let surfaces = Surfaces::from_text("there", text);
        assert_eq!(surfaces.places(secret), ["there"], "{form}");
        surfaces.hide(&[secret]).unwrap_err();
    }
    for user in ["", "a:", "al:", "ali:"] {
        let pair = format!("{user}{secret}, and more");
        for text in [
            general_purpose::STANDARD.encode(&pair),
            general_purpose::URL_SAFE_NO_PAD.encode(&pair),
        ] {
            let surfaces = Surfaces::from_text("there", text);
            assert_eq!(surfaces.places(secret), ["there"], "{user}");
        }
    }
    let surfaces = Surfaces::from_text("there", "hush and nothing else".into());
    assert!(surfaces.places(secret).is_empty());
    surfaces.hide(&[secret]).unwrap();
    surfaces.show(secret, &["there"]).unwrap_err();
}
