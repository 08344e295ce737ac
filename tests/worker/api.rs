//! A worker's REST, asked from outside.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use reqwest::{Client, Method, StatusCode};
use serde_json::Value;
use sluice_test_support::wait::eventually;
use sluice_test_support::worker::Worker;

/// The REST of one worker.
pub struct Api {
    client: Client,
    pub url: String,
}

impl Api {
    /// Of a worker that logs JSON, by the address in its log.
    pub async fn of(worker: &Worker) -> Result<Self> {
        let url = worker.rest_url().await?;
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::builder().no_proxy().build()?;
        Ok(Self { client, url })
    }

    pub async fn text(&self, method: Method, path: &str) -> Result<(StatusCode, String)> {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let answer = request.send().await?;
        Ok((answer.status(), answer.text().await?))
    }

    pub async fn get(&self, path: &str) -> Result<(StatusCode, Value)> {
        let (status, text) = self.text(Method::GET, path).await?;
        Ok((status, serde_json::from_str(&text)?))
    }

    pub async fn post(&self, path: &str) -> Result<(StatusCode, String)> {
        self.text(Method::POST, path).await
    }

    pub async fn put(&self, path: &str, body: String) -> Result<(StatusCode, String)> {
        let request = self.client.put(format!("{}{path}", self.url)).body(body);
        let answer = request.send().await?;
        Ok((answer.status(), answer.text().await?))
    }

    /// Waits until a path answers as wanted.
    pub async fn wait_for(
        &self,
        path: &str,
        timeout: Duration,
        wanted: impl Fn(StatusCode, &Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("{path} is as wanted"), timeout, async || {
            let (status, body) = self.get(path).await?;
            ensure!(wanted(status, &body), "{path} is {status}: {body}");
            Ok(body)
        })
        .await
    }

    /// A metric of the worker itself, which has no labels.
    pub async fn of_worker(&self, name: &str) -> Result<f64> {
        let (_, text) = self.text(Method::GET, "/metrics").await?;
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = value.with_context(|| format!("no {name} in {text}"))?;
        Ok(value.parse()?)
    }

    /// The sum of a metric over its series that have this label.
    pub async fn metric(&self, name: &str, label: &str) -> Result<f64> {
        let (_, text) = self.text(Method::GET, "/metrics").await?;
        let series = text.lines().filter_map(|line| {
            let (labels, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            labels.starts_with('{').then_some(())?;
            labels.contains(label).then(|| value.parse::<f64>().ok())?
        });
        let values: Vec<f64> = series.collect();
        ensure!(!values.is_empty(), "no {name} with {label} in {text}");
        Ok(values.iter().sum())
    }
}
