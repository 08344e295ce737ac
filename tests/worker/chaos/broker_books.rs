//! The broker's own word on the share group: the log of its states up to its
//! end, as Kafka's tool prints it.

use anyhow::{Context, Result, ensure};
use serde_json::{Deserializer, Value};
use sluice_test_support::consume::read_topic;
use sluice_test_support::java::run_tool;

use super::verdict::BrokerBooks;

const CONSOLE_CONSUMER: &str = "org.apache.kafka.tools.consumer.ConsoleConsumer";
const FORMATTER: &str =
    "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter";
const STATES: &str = "__share_group_state";
/// The tool ends when it has printed all; nothing for so long is an error.
const PATIENCE_MS: &str = "120000";
const ARCHIVED: i64 = 4;

/// Of each of these groups.
pub async fn read(servers: &str, groups: &[String]) -> Result<Vec<BrokerBooks>> {
    let states = read_topic(servers, STATES).await?.len();
    let count = states.to_string();
    let arguments = [
        "--bootstrap-server",
        servers,
        "--topic",
        STATES,
        "--from-beginning",
        "--formatter",
        FORMATTER,
        "--max-messages",
        &count,
        "--timeout-ms",
        PATIENCE_MS,
    ];
    let printed = run_tool(CONSOLE_CONSUMER, &arguments).await?;
    let groups = groups.iter();
    groups.map(|group| parse(&printed, states, group)).collect()
}

/// What was printed of so many states.
fn parse(printed: &str, states: usize, group: &str) -> Result<BrokerBooks> {
    let (mut books, mut entries) = (BrokerBooks::default(), 0);
    for record in Deserializer::from_str(printed).into_iter::<Value>() {
        let record = record.context("the tool printed no JSON")?;
        entries += 1;
        let key = &record["key"]["data"];
        if key["groupId"] == group && !record["value"].is_null() {
            enter(&mut books, key, &record["value"]["data"])
                .with_context(|| format!("not understood: {record}"))?;
        }
    }
    ensure!(
        entries == states,
        "{entries} of {states} states in {STATES} were printed"
    );
    Ok(books)
}

fn enter(books: &mut BrokerBooks, key: &Value, state: &Value) -> Result<()> {
    let partition = i32::try_from(number(key, "partition")?)?;
    // An update tells only what changed: -1 is no news of the start.
    let mut end = number(state, "startOffset")?;
    let batches = state["stateBatches"].as_array();
    for batch in batches.context("no stateBatches")? {
        let (first, last) = (number(batch, "firstOffset")?, number(batch, "lastOffset")?);
        let count = u16::try_from(number(batch, "deliveryCount")?)?;
        books.highest_delivery_count = books.highest_delivery_count.max(count);
        if number(batch, "deliveryState")? == ARCHIVED {
            let offsets = (first..=last).map(|offset| (partition, offset));
            books.archived.extend(offsets);
        }
        end = end.max(last + 1);
    }
    let known = books.ends.entry(partition).or_insert(end);
    *known = end.max(*known);
    Ok(())
}

fn number(of: &Value, field: &str) -> Result<i64> {
    let number = of[field].as_i64();
    number.with_context(|| format!("no number {field}"))
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
    fn all_batches_of_the_group_are_entered() {
        let batches = [batch(7, 8, 2, 6), batch(9, 11, 4, 2)].join(",");
        let tombstone = r#"{"key":{"type":0,"data":{"groupId":"g","partition":3}},"value":null}"#;
        let printed = [
            record("g", &batches),
            tombstone.to_owned(),
            record("g", ""),
            record("other", &batch(1, 20, 4, 9)),
        ];
        let books = parse(&printed.join("\n"), 4, "g").unwrap();
        assert_eq!(books.archived, [(3, 9), (3, 10), (3, 11)].into());
        assert_eq!(books.highest_delivery_count, 6);
        assert_eq!(books.ends, [(3, 12)].into());
    }

    #[test]
    fn a_state_without_batches_ends_at_its_start() {
        let books = parse(&record("g", ""), 1, "g").unwrap();
        assert_eq!(books.ends, [(3, 7)].into());
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        parse("no JSON", 1, "g").unwrap_err();
        let batch = r#"{"firstOffset":1,"lastOffset":1}"#;
        let error = parse(&record("g", batch), 1, "g").unwrap_err();
        assert!(format!("{error:#}").contains("deliveryCount"), "{error:#}");
    }

    #[test]
    fn books_that_were_not_read_to_their_end_are_an_error() {
        let one = record("g", &batch(7, 8, 2, 1));
        for (printed, states) in [("", 2), (&*one, 2), (&one[..one.len() - 5], 1)] {
            parse(printed, states, "g").unwrap_err();
        }
        parse("", 0, "g").unwrap();
    }
}
