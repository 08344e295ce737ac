//! Plugins, their keys, and configurations that are validated.

use axum::http::{Method, StatusCode};
use serde_json::{Value, json};

use super::Setting;

const VALIDATE: &str = "/connector-plugins/file/config/validate";

#[actix::test]
async fn sinks_are_listed_and_all_plugins_on_demand() {
    let setting = Setting::new().await;
    let sinks = setting.get("/connector-plugins").await;
    assert_eq!(sinks.as_array().unwrap().len(), 1);
    assert_eq!(sinks[0]["class"], "file");
    let all = setting.get("/connector-plugins?connectorsOnly=false").await;
    assert_eq!(all[1]["type"], "converter");
}

#[actix::test]
async fn a_plugin_tells_its_keys_and_a_sink_those_of_connectors_too() {
    let setting = Setting::new().await;
    let keys = setting
        .get("/connector-plugins/FileStreamSink/config")
        .await;
    assert_eq!(
        keys[0],
        json!({
            "name": "file", "type": "STRING", "required": true, "default_value": null,
            "importance": "HIGH", "documentation": "Where to.", "group": "Plugin",
            "order_in_group": 1, "width": "MEDIUM", "display_name": "file", "dependents": [],
        })
    );
    let keys = keys.as_array().unwrap();
    let tasks = keys.iter().find(|key| key["name"] == "tasks.max").unwrap();
    assert_eq!(
        (&tasks["type"], &tasks["default_value"]),
        (&json!("INT"), &json!("1"))
    );
    let converter = setting.get("/connector-plugins/json/config").await;
    assert_eq!(converter.as_array().unwrap().len(), 1);
    let (status, body) = setting
        .ask(Method::GET, "/connector-plugins/none/config")
        .await;
    assert_eq!(
        (status.as_u16(), &body["message"]),
        (404, &json!("Unknown plugin none."))
    );
}

#[actix::test]
async fn a_configuration_is_validated_key_by_key() {
    let setting = Setting::new().await;
    let config = json!({
        "name": "orders",
        "connector.class": "file",
        "tasks.max": "none",
        "topics": "t",
        "file.seal": "hush",
        "consumer.override.group.protocol": "share",
        "consumer.override.fetch.min.bytes": 7,
        "value.converter": "json",
        "errors.tolerence": "all",
        "share.group.id": null,
    });
    let (status, told) = setting
        .send(Method::PUT, VALIDATE, config.to_string())
        .await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert_eq!(told["name"], "file");
    let configs = told["configs"].as_array().unwrap();
    let one = |name: &str| {
        let mut found = configs.iter().filter(|it| it["value"]["name"] == name);
        let one = found.next().unwrap_or(&Value::Null).clone();
        assert_eq!(found.next(), None, "{name} is there twice");
        one
    };
    let errors = |name: &str| one(name)["value"]["errors"].to_string();
    assert!(errors("tasks.max").contains("whole number"), "{told}");
    assert!(errors("file").contains("is required"), "{told}");
    assert!(errors("key.converter").contains("required"), "{told}");
    let misspelt = one("errors.tolerence");
    assert_eq!(misspelt["definition"], Value::Null);
    assert!(
        errors("errors.tolerence").contains("errors.tolerance"),
        "{told}"
    );
    for sound in [
        "name",
        "topics",
        "value.converter",
        "value.converter.schemas.enable",
    ] {
        assert_eq!(errors(sound), "[]", "{sound}");
    }
    let count: usize = configs
        .iter()
        .map(|it| it["value"]["errors"].as_array().unwrap().len())
        .sum();
    assert_eq!(told["error_count"], count, "{told}");
    assert_eq!(one("file.seal")["value"]["value"], "[hidden]");
    assert_eq!(one("file.seal")["definition"]["type"], "PASSWORD");
    assert!(!told.to_string().contains("hush"), "{told}");
    assert_eq!(
        one("consumer.override.fetch.min.bytes")["value"]["value"],
        "7"
    );
    assert_eq!(
        one("consumer.override.fetch.max.bytes"),
        Value::Null,
        "not given"
    );
    let tolerance = one("errors.tolerance");
    assert_eq!(tolerance["value"]["value"], "none", "the default");
    assert_eq!(
        tolerance["value"]["recommended_values"],
        json!(["none", "all"])
    );
}

#[actix::test]
async fn what_a_config_provider_knows_is_checked_and_not_told() {
    let setting = Setting::new().await;
    let body = json!({
        "name": "orders",
        "connector.class": "file",
        "file": "/data/${env:SEAL}",
        "file.seal": "${env:SEAL}",
        "tasks.max": "${env:SEAL}",
    });
    let (status, told) = setting.send(Method::PUT, VALIDATE, body.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{told}");
    assert!(!told.to_string().contains("hush"), "{told}");
    let configs = told["configs"].as_array().unwrap();
    let value = |name: &str| {
        let mut values = configs.iter().map(|it| &it["value"]);
        values.find(|it| it["name"] == name).unwrap().clone()
    };
    for (name, shown, errors) in [
        ("file", "/data/${env:SEAL}", json!([])),
        ("file.seal", "${env:SEAL}", json!([])),
        (
            "tasks.max",
            "${env:SEAL}",
            json!(["\"[hidden]\" is not a whole number"]),
        ),
    ] {
        let value = value(name);
        assert_eq!(value["value"], shown, "{value}");
        assert_eq!(value["errors"], errors, "{value}");
    }
}

#[actix::test]
async fn no_validation_reads_a_file_that_is_none() {
    let setting = Setting::new().await;
    for key in ["ssl.truststore.location", "ssl.keystore.location"] {
        let key = format!("consumer.override.{key}");
        for (path, kind) in [("/dev/zero", "PEM"), ("/", "PKCS12")] {
            let mut config = json!({
                "name": "orders",
                "connector.class": "file",
                "consumer.override.security.protocol": "SSL",
            });
            config[&key] = json!(path);
            config[key.replace("location", "type")] = json!(kind);
            let body = config.to_string();
            let (status, told) = setting.send(Method::PUT, VALIDATE, body).await;
            assert_eq!(status, StatusCode::OK, "{told}");
            let mut configs = told["configs"].as_array().unwrap().iter();
            let one = configs.find(|it| it["value"]["name"] == *key).unwrap();
            let errors = one["value"]["errors"].to_string();
            assert!(errors.contains("is no regular file"), "{key}: {errors}");
        }
    }
}

#[actix::test]
async fn what_is_no_configuration_of_the_plugin_is_a_bad_request() {
    let setting = Setting::new().await;
    let json_converter = "/connector-plugins/json/config/validate";
    for (path, body, told) in [
        (VALIDATE, "{\"password\": hush", "column"),
        (VALIDATE, "{}", "connector.class"),
        (
            VALIDATE,
            "{\"connector.class\": \"http\"}",
            "does not match",
        ),
        (VALIDATE, "{\"transforms\": [\"a\"]}", "transforms"),
        (json_converter, "{}", "converter"),
    ] {
        let (status, answer) = setting.send(Method::PUT, path, body.to_owned()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {answer}");
        let message = answer["message"].as_str().unwrap();
        assert!(message.contains(told), "{message}");
        assert!(!message.contains("hush"), "{message}");
    }
}
