//! The orders that the demo writes: samples in turn, each with an id of its
//! own.

/// One order a line, without an id.
const SAMPLES: &str = include_str!("../../docs/demo/orders.ndjson");

const ID: &str = "order-";

/// An order, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) customer: String,
    pub(super) json: String,
}

/// As many orders as are asked for, by number.
#[derive(Debug)]
pub(super) struct Orders {
    samples: Vec<&'static str>,
    count: u32,
}

impl Orders {
    pub(super) fn new(count: u32) -> Self {
        Self {
            samples: SAMPLES.lines().collect(),
            count,
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count
    }

    pub(super) fn id(number: u32) -> String {
        format!("{ID}{number:07}")
    }

    pub(super) fn order(&self, number: u32) -> Order {
        let sample = self.samples[number as usize % self.samples.len()];
        let fields = sample.strip_prefix('{').unwrap_or(sample);
        let customer = fields.split('"').nth(3).unwrap_or_default();
        Order {
            customer: customer.to_owned(),
            json: format!(r#"{{"id":"{}", {fields}"#, Self::id(number)),
        }
    }

    /// The number of an order that is exactly as it was written.
    pub(super) fn number(&self, json: &str) -> Option<u32> {
        let id = json.split('"').nth(3)?.strip_prefix(ID)?;
        let number = id.parse().ok().filter(|number| *number < self.count)?;
        (self.order(number).json == json).then_some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;

    #[test]
    fn every_sample_makes_an_order_with_its_customer_and_its_sum() {
        let orders = Orders::new(200);
        assert!(orders.samples.len() >= 24);
        for number in 0..200 {
            let order = orders.order(number);
            let json: Value = serde_json::from_str(&order.json).unwrap();
            assert_eq!(json["id"], format!("order-{number:07}"));
            assert_eq!(json["customer"], order.customer.as_str());
            let items = json["items"].as_array().unwrap();
            let prices = items
                .iter()
                .map(|item| item["price"].as_f64().unwrap() * item["quantity"].as_f64().unwrap());
            let total = json["total"].as_f64().unwrap();
            assert!((prices.sum::<f64>() - total).abs() < 0.01, "{}", order.json);
            // The sink's file has an order a line.
            assert!(!order.json.contains(['\\', '\n']));
        }
    }

    #[test]
    fn orders_are_told_apart_though_samples_repeat() {
        let orders = Orders::new(200);
        let all: BTreeSet<_> = (0..200).map(|number| orders.order(number).json).collect();
        assert_eq!(all.len(), 200);
        assert_eq!(orders.number(&orders.order(199).json), Some(199));
    }

    #[test]
    fn what_is_not_as_it_was_written_has_no_number() {
        let orders = Orders::new(10);
        let json = orders.order(3).json;
        for altered in [
            &json[..json.len() - 1],
            &json.replace("order-0000003", "order-0000004"),
            &orders.order(10).json,
            "",
            "{}",
        ] {
            assert_eq!(orders.number(altered), None, "{altered}");
        }
    }
}
