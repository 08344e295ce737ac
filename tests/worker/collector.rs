//! A real OpenTelemetry collector gets what workers export, as it is set up in
//! deploy/.

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::life::Redelivered;
use crate::otelcol::{Otelcol, run};
use crate::pushed_metrics::accepted_in;

/// One record's life and the last counts, by one of OTLP's protocols.
async fn gets_traces_and_metrics_by(protocol: &str, stem: &str) -> Result<()> {
    let collector = Otelcol::start().await?;
    let redelivered = Redelivered::run(
        stem,
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url(protocol)),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ],
    )
    .await?;
    collector.stop().await?;
    redelivered.check(&collector.spans()?);
    let metrics = collector.metrics()?;
    let accepted = accepted_in(&metrics, &redelivered.stage.name);
    let accepted = accepted.with_context(|| format!("{metrics:?}"))?;
    assert_eq!(accepted.value as usize, Redelivered::RECORDS);
    assert_eq!(accepted.service, "sluice");
    assert!(accepted.is_total, "{accepted:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants the collector that ./test collector builds"]
async fn over_grpc_it_gets_a_records_life_and_the_counts() -> Result<()> {
    gets_traces_and_metrics_by("grpc", "collected-grpc").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "wants the collector that ./test collector builds"]
async fn over_http_it_gets_a_records_life_and_the_counts() -> Result<()> {
    gets_traces_and_metrics_by("http/protobuf", "collected-http").await
}

#[test]
#[ignore = "wants the collector that ./test collector builds"]
fn it_takes_the_configuration_of_compose_as_it_is_and_is_of_that_version() -> Result<()> {
    run(&["validate", "--config", "deploy/otel-collector.yaml"])?;
    let told = run(&["--version"])?;
    let version = told.split_whitespace().last().context("no version")?;
    let compose = fs::read_to_string("deploy/compose.yaml")?;
    let image = format!("image: otel/opentelemetry-collector:{version}\n");
    ensure!(compose.contains(&image), "no {image}");
    Ok(())
}
