//! What was written against what arrived: the demo believes the sink's file,
//! not the worker.

use std::io::{self, Write};

use super::orders::Orders;

/// So many lost orders are named.
const EXAMPLES: usize = 5;

/// The orders of a demo, counted where they arrived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Written to the topic.
    pub(super) written: u64,
    /// Different orders in the sink's file.
    pub(super) delivered: u64,
    /// Lines beyond the first of an order.
    pub(super) duplicates: u64,
    /// Lines that are no order as it was written.
    pub(super) altered: u64,
    /// Orders that the broker is done with and the sink never got, by number.
    pub(super) lost: Vec<u32>,
    /// Orders that nobody is done with yet.
    pub(super) left: u64,
}

impl Tally {
    /// `is_settled` tells whether the broker is done with an order, which it
    /// would then give to nobody again.
    pub(super) fn count(orders: &Orders, arrived: &str, is_settled: impl Fn(u32) -> bool) -> Self {
        let mut tally = Self::default();
        let mut times = vec![0_u32; orders.count() as usize];
        for line in arrived.lines() {
            match orders.number(line) {
                Some(number) => times[number as usize] += 1,
                None => tally.altered += 1,
            }
        }
        for (number, times) in (0..).zip(times) {
            tally.written += 1;
            match times {
                0 if is_settled(number) => tally.lost.push(number),
                0 => tally.left += 1,
                _ => {
                    tally.delivered += 1;
                    tally.duplicates += u64::from(times - 1);
                }
            }
        }
        tally
    }

    /// Whether every order that the broker is done with arrived as it was
    /// written.
    pub(super) fn is_good(&self) -> bool {
        self.lost.is_empty() && self.altered == 0
    }

    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut row = |name, count, meaning| writeln!(out, "{name:>12} {count:>8}  {meaning}");
        row("in", self.written, "orders written to the topic")?;
        row("delivered", self.delivered, "of them in the sink's file")?;
        row(
            "duplicates",
            self.duplicates,
            "lines beyond the first of an order",
        )?;
        row(
            "lost",
            self.lost.len() as u64,
            "settled, but not in the file",
        )?;
        if self.left > 0 {
            row("left", self.left, "still in the topic, for the next worker")?;
        }
        if self.altered > 0 {
            row(
                "altered",
                self.altered,
                "lines that are no order as written",
            )?;
        }
        for number in self.lost.iter().take(EXAMPLES) {
            writeln!(out, "{:>12} {}", "lost:", Orders::id(*number))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(orders: &Orders, numbers: &[u32]) -> String {
        let lines = numbers
            .iter()
            .map(|number| orders.order(*number).json + "\n");
        lines.collect()
    }

    fn printed(tally: &Tally) -> String {
        let mut out = Vec::new();
        tally.print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn an_order_that_is_settled_and_did_not_arrive_is_lost() {
        let orders = Orders::new(4);
        let tally = Tally::count(&orders, &file(&orders, &[0, 1, 3]), |_| true);
        assert_eq!((tally.written, tally.delivered), (4, 3));
        assert_eq!(tally.lost, [2]);
        assert!(!tally.is_good());
        assert!(printed(&tally).contains("lost: order-0000002"));
    }

    #[test]
    fn an_order_that_nobody_has_settled_is_left_not_lost() {
        let orders = Orders::new(4);
        let tally = Tally::count(&orders, &file(&orders, &[0, 1]), |number| number < 2);
        assert_eq!((tally.delivered, tally.left), (2, 2));
        assert!(tally.is_good());
        assert!(printed(&tally).contains("2  still in the topic"));
    }

    #[test]
    fn an_order_that_came_twice_is_delivered_once_and_one_duplicate() {
        let orders = Orders::new(2);
        let tally = Tally::count(&orders, &file(&orders, &[1, 0, 1]), |_| true);
        assert_eq!((tally.delivered, tally.duplicates), (2, 1));
        assert!(tally.is_good());
    }

    #[test]
    fn an_altered_order_does_not_count_as_delivered() {
        let orders = Orders::new(1);
        let altered = file(&orders, &[0]).replace("EUR", "USD");
        let tally = Tally::count(&orders, &altered, |_| true);
        assert_eq!((tally.delivered, tally.altered), (0, 1));
        assert!(!tally.is_good());
        assert!(printed(&tally).contains("altered"));
    }
}
