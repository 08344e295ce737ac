//! The broker's own word on the share group: the log of its states, as Kafka's
//! tool prints it.

use anyhow::{Context, Result};
use serde_json::{Deserializer, Value};
use sluice_test_support::java::run_tool;

use super::verdict::BrokerBooks;

const CONSOLE_CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
const FORMATTER: &str =
    "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter";
const STATES: &str = "__share_group_state";
/// The tool ends when nothing has come for so long.
const QUIET_MS: &str = "5000";
const ARCHIVED: u64 = 4;

pub async fn read(servers: &str, group: &str) -> Result<BrokerBooks> {
    let arguments = [
        "--bootstrap-server",
        servers,
        "--topic",
        STATES,
        "--from-beginning",
        "--formatter",
        FORMATTER,
        "--timeout-ms",
        QUIET_MS,
    ];
    let printed = run_tool(CONSOLE_CONSUMER, &arguments).await?;
    parse(&printed, group)
}

fn parse(printed: &str, group: &str) -> Result<BrokerBooks> {
    let mut books = BrokerBooks::default();
    for record in Deserializer::from_str(printed).into_iter::<Value>() {
        let record = record.context("the tool printed no JSON")?;
        let key = &record["key"]["data"];
        if key["groupId"] != group {
            continue;
        }
        let partition = key["partition"].as_i64().context("no partition")?;
        let batches = record["value"]["data"]["stateBatches"].as_array();
        for batch in batches.into_iter().flatten() {
            enter(&mut books, i32::try_from(partition)?, batch)
                .with_context(|| format!("not understood: {record}"))?;
        }
    }
    Ok(books)
}

fn enter(books: &mut BrokerBooks, partition: i32, batch: &Value) -> Result<()> {
    let number = |field: &str| batch[field].as_i64().context(field.to_owned());
    let count = u16::try_from(number("deliveryCount")?)?;
    books.highest_delivery_count = books.highest_delivery_count.max(count);
    if batch["deliveryState"].as_u64().context("deliveryState")? == ARCHIVED {
        let offsets = number("firstOffset")?..=number("lastOffset")?;
        books
            .archived
            .extend(offsets.map(|offset| (partition, offset)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(group: &str, batches: &str) -> String {
        format!(
            r#"{{"key":{{"type":1,"data":{{"groupId":"{group}","topicId":"t","partition":3}}}},
            "value":{{"version":0,"data":{{"startOffset":7,"stateBatches":[{batches}]}}}}}}"#
        )
    }

    fn batch(first: i64, last: i64, state: u8, count: u16) -> String {
        format!(
            r#"{{"firstOffset":{first},"lastOffset":{last},"deliveryState":{state},"deliveryCount":{count}}}"#
        )
    }

    #[test]
    fn archived_offsets_and_the_highest_count_are_of_all_batches_of_the_group() {
        let batches = [batch(7, 8, 2, 6), batch(9, 11, 4, 2)].join(",");
        let tombstone = r#"{"key":{"type":0,"data":{"groupId":"g","partition":3}},"value":null}"#;
        let printed = [
            record("g", &batches),
            tombstone.to_owned(),
            record("other", &batch(1, 1, 4, 9)),
        ];
        let books = parse(&printed.join("\n"), "g").unwrap();
        assert_eq!(books.archived, [(3, 9), (3, 10), (3, 11)].into());
        assert_eq!(books.highest_delivery_count, 6);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        parse("no JSON", "g").unwrap_err();
        let error = parse(&record("g", r#"{"firstOffset":1}"#), "g").unwrap_err();
        assert!(format!("{error:#}").contains("deliveryCount"), "{error:#}");
    }
}
