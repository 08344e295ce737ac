//! What is to be reached: a bound, and what was.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};

#[derive(Clone, Copy, Debug)]
enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

#[derive(Clone, Debug)]
pub struct Goal {
    what: String,
    bound: Bound,
    reached: f64,
}

impl Goal {
    pub fn at_least(what: impl Into<String>, bound: f64, reached: f64) -> Self {
        Self {
            what: what.into(),
            bound: Bound::AtLeast(bound),
            reached,
        }
    }

    pub fn at_most(what: impl Into<String>, bound: f64, reached: f64) -> Self {
        Self {
            what: what.into(),
            bound: Bound::AtMost(bound),
            reached,
        }
    }

    /// With a bound that is the part `slack` of it easier. What is no number
    /// meets nothing.
    pub fn is_met(&self, slack: f64) -> bool {
        match self.bound {
            Bound::AtLeast(least) => self.reached >= least * (1.0 - slack),
            Bound::AtMost(most) => self.reached <= most * (1.0 + slack),
        }
    }

    pub fn json(&self) -> Value {
        let (kind, bound) = match self.bound {
            Bound::AtLeast(least) => ("at_least", least),
            Bound::AtMost(most) => ("at_most", most),
        };
        json!({"what": self.what, kind: bound, "reached": self.reached, "met": self.is_met(0.0)})
    }

    fn bound(&self) -> String {
        match self.bound {
            Bound::AtLeast(least) => format!("at least {least}"),
            Bound::AtMost(most) => format!("at most {most}"),
        }
    }
}

impl Display for Goal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (what, bound, reached) = (&self.what, self.bound(), self.reached);
        write!(f, "{what}: {reached:.3}, to be {bound}")
    }
}

pub fn markdown(goals: &[Goal]) -> String {
    let mut text = "| goal | to be | reached | met |\n|---|---|---:|---|\n".to_owned();
    for goal in goals {
        let (what, bound, reached) = (&goal.what, goal.bound(), goal.reached);
        let met = if goal.is_met(0.0) { "yes" } else { "**no**" };
        text += &format!("| {what} | {bound} | {reached:.3} | {met} |\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_of_bounds_are_kept_to_and_no_number_meets_none() {
        assert!(Goal::at_least("a", 0.5, 0.5).is_met(0.0));
        assert!(!Goal::at_least("a", 0.5, 0.49).is_met(0.0));
        assert!(Goal::at_most("a", 10.0, 10.0).is_met(0.0));
        assert!(!Goal::at_most("a", 10.0, 10.1).is_met(0.0));
        for goal in [
            Goal::at_least("a", 0.0, f64::NAN),
            Goal::at_most("a", 1.0, f64::NAN),
        ] {
            assert!(!goal.is_met(0.9));
        }
    }

    #[test]
    fn what_is_missed_stands_out() {
        let goals = [Goal::at_least("a", 0.5, 0.4), Goal::at_most("b", 2.0, 1.0)];
        let text = markdown(&goals);
        assert!(
            text.contains("| a | at least 0.5 | 0.400 | **no** |\n"),
            "{text}"
        );
        assert!(
            text.ends_with("| b | at most 2 | 1.000 | yes |\n"),
            "{text}"
        );
    }
}
