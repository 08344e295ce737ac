use std::fs;

use super::*;
use crate::config::testing::layer;

const CLASSES: [(&str, &str); 4] = [
    ("config.providers", "file, dir,env"),
    (
        "config.providers.file.class",
        "org.apache.kafka.common.config.provider.FileConfigProvider",
    ),
    ("config.providers.dir.class", "DirectoryConfigProvider"),
    ("config.providers.env.class", "EnvVarConfigProvider"),
];

fn environment() -> Environment {
    let variables = [("TOKEN", "hush-1\n"), ("DB_USER", "alice")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Environment::of(variables.into())
}

/// What these become, and what is wrong with them.
fn filled(pairs: &[(&str, &str)]) -> (Settings, String) {
    let (mut settings, mut faults) = (
        Settings::merge([layer(&CLASSES), layer(pairs)]).unwrap(),
        Faults::default(),
    );
    let providers = Providers::read(&settings, &environment(), &mut faults);
    providers.fill_in(&mut settings).tell(&mut faults);
    (settings, faults.to_string())
}

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("a.properties"),
        "db.password = hush\\n2\n",
    )
    .unwrap();
    fs::write(folder.path().join("token"), "hush-3").unwrap();
    let path = folder.path().display().to_string();
    (folder, path)
}

#[test]
fn each_provider_fills_in_what_it_knows_and_the_rest_stays() {
    let (_folder, path) = folder();
    let (settings, faults) = filled(&[
        (
            "a",
            &format!("x ${{file:{path}/a.properties:db.password}} y"),
        ),
        ("b", &format!("${{dir:{path}:token}}")),
        ("c", "${env:DB_USER}:${env:TOKEN}"),
        ("d", "${topic}-${other:x}"),
    ]);
    assert_eq!(faults, "");
    assert_eq!(settings.get("a"), Some("x hush\n2 y"));
    assert_eq!(settings.get("b"), Some("hush-3"));
    assert_eq!(settings.get("c"), Some("alice:hush-1\n"));
    assert_eq!(settings.get("d"), Some("${topic}-${other:x}"));
    assert_eq!(
        settings.as_written("c"),
        Some("${env:DB_USER}:${env:TOKEN}")
    );
    assert!(settings.is_filled_in("c") && !settings.is_filled_in("d"));
}

#[test]
fn what_is_not_there_is_told_by_key_and_reference() {
    let (_folder, path) = folder();
    for (value, cause) in [
        ("${env:NONE}".to_owned(), "the variable NONE is not set"),
        ("${env:a:TOKEN}".to_owned(), "there is a path in it"),
        ("${file:x}".to_owned(), "there is no path in it"),
        (format!("${{file:{path}/a.properties:x}}"), "has no key x"),
        (format!("${{file:{path}/none:x}}"), "cannot be read"),
        (format!("${{dir:{path}:none}}"), "cannot be read"),
        (format!("${{dir:{path}:../token}}"), "is no file's name"),
        (format!("${{dir:{path}:}}"), "is no file's name"),
    ] {
        let (_, fault) = filled(&[("k", &value)]);
        assert!(fault.starts_with(&format!("k: {value}: ")), "{fault}");
        assert!(fault.contains(cause) && !fault.contains("hush"), "{fault}");
    }
}

#[test]
fn a_provider_gives_out_only_what_it_may() {
    let (_folder, path) = folder();
    let inner = format!("{path}/inner");
    fs::create_dir(&inner).unwrap();
    for (value, is_allowed) in [
        ("${env:DB_USER}".to_owned(), true),
        ("${env:TOKEN}".to_owned(), false),
        (format!("${{file:{path}/a.properties:db.password}}"), true),
        // Which is there.
        (format!("${{dir:{inner}/..:token}}"), false),
        (format!("${{dir:{path}:token}}"), false),
    ] {
        let (settings, fault) = filled(&[
            ("config.providers.env.param.allowlist.pattern", "DB_|DB_.*"),
            ("config.providers.file.param.allowed.paths", &path),
            ("config.providers.dir.param.allowed.paths", &inner),
            ("k", &value),
        ]);
        assert_eq!(fault.is_empty(), is_allowed, "{value}: {fault}");
        assert_eq!(settings.is_filled_in("k"), is_allowed, "{value}");
        assert!(!fault.contains("hush"), "{fault}");
    }
}

#[test]
fn what_was_filled_in_is_not_told_by_what_is_wrong_with_it() {
    let (mut settings, mut faults) = (
        Settings::merge([
            layer(&CLASSES),
            layer(&[("k", "${env:TOKEN}"), ("l", "${env:NO}")]),
        ])
        .unwrap(),
        Faults::default(),
    );
    let providers = Providers::read(&settings, &environment(), &mut faults);
    let filled = providers.fill_in(&mut settings);
    faults.add("k", format!("{:?} is not a number", "hush-1"));
    faults.add("l", "\"${env:NO}\" is not a number");
    filled.tell(&mut faults);
    assert_eq!(
        faults.to_string(),
        "k: \"[hidden]\" is not a number\nl: ${env:NO}: the variable NO is not set"
    );
}

#[test]
fn a_reference_to_a_provider_that_was_forgotten_is_told_how_to_get_it() {
    let mut settings = Settings::merge([layer(&[("k", "${env:TOKEN}")])]).unwrap();
    let mut faults = Faults::default();
    let providers = Providers::read(&settings, &environment(), &mut faults);
    providers.fill_in(&mut settings).tell(&mut faults);
    assert_eq!(
        faults.to_string(),
        "k: ${env:TOKEN} asks a config provider that is not there; give the worker config.providers=env and config.providers.env.class=EnvVarConfigProvider"
    );
}

#[test]
fn a_provider_that_cannot_be_is_told_once() {
    for (key, value, fault) in [
        (
            "env.class",
            "com.acme.VaultProvider",
            "\"com.acme.VaultProvider\" is no config provider that runs here",
        ),
        ("env.class", "", "\"\" is no config provider"),
        (
            "env.param.allowlist.pattern",
            "(",
            "is not a regular expression",
        ),
        (
            "file.param.allowed.paths",
            "a",
            "\"a\" is not an absolute path",
        ),
    ] {
        let key = format!("config.providers.{key}");
        let uses = [("k", "${env:TOKEN}"), ("l", "${file:/nowhere:x}")];
        let uses = uses.into_iter().filter(|(_, it)| key.contains(&it[2..5]));
        let pairs: Vec<_> = uses.chain([(&*key, value)]).collect();
        let (_, faults) = filled(&pairs);
        assert!(faults.starts_with(&format!("{key}: {fault}")), "{faults}");
        assert_eq!(faults.lines().count(), 1, "{faults}");
    }
}
