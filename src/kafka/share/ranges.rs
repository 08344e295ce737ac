//! Sets of offsets with a value each, kept as runs.

use std::collections::BTreeMap;

/// Consecutive offsets with the same value, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run<V> {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) value: V,
}

impl<V> Run<V> {
    pub(super) fn len(&self) -> u64 {
        offsets_between(self.first, self.last)
    }

    pub(super) fn contains(&self, offset: i64) -> bool {
        (self.first..=self.last).contains(&offset)
    }
}

/// How many offsets lie between two, both included.
pub(super) fn offsets_between(first: i64, last: i64) -> u64 {
    if last < first {
        return 0;
    }
    last.abs_diff(first).saturating_add(1)
}

/// Offsets of one partition. Neighbours with the same value are one run, so
/// that records settled together cost one entry.
#[derive(Debug)]
pub(super) struct Ranges<V> {
    /// First offset to last offset and value.
    runs: BTreeMap<i64, (i64, V)>,
    len: u64,
}

impl<V> Default for Ranges<V> {
    fn default() -> Self {
        Self {
            runs: BTreeMap::new(),
            len: 0,
        }
    }
}

impl<V: Copy + PartialEq> Ranges<V> {
    /// The number of offsets.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Run<V>> + '_ {
        self.runs
            .iter()
            .map(|(&first, &(last, value))| Run { first, last, value })
    }

    /// What is there between two offsets, in order.
    pub(super) fn within(&self, first: i64, last: i64) -> impl Iterator<Item = Run<V>> + '_ {
        let before = self.runs.range(..first).next_back();
        let from = match before {
            Some((&start, &(end, _))) if end >= first => start,
            _ => first,
        };
        self.runs
            .range(from..=last.max(from))
            .map(move |(&start, &(end, value))| Run {
                first: start.max(first),
                last: end.min(last),
                value,
            })
            .filter(|run| run.first <= run.last)
    }

    /// The run that an offset is in, if it is there.
    pub(super) fn run(&self, offset: i64) -> Option<Run<V>> {
        let (&first, &(last, value)) = self.runs.range(..=offset).next_back()?;
        let run = Run { first, last, value };
        run.contains(offset).then_some(run)
    }

    /// Adds offsets; what they were before is overwritten.
    pub(super) fn insert(&mut self, mut run: Run<V>) {
        if run.len() == 0 {
            return;
        }
        self.remove(run.first, run.last);
        self.len += run.len();
        if let Some((&first, &(last, value))) = self.runs.range(..run.first).next_back()
            && value == run.value
            && last.checked_add(1) == Some(run.first)
        {
            self.runs.remove(&first);
            run.first = first;
        }
        if let Some(next) = run.last.checked_add(1)
            && let Some(&(last, value)) = self.runs.get(&next)
            && value == run.value
        {
            self.runs.remove(&next);
            run.last = last;
        }
        self.runs.insert(run.first, (run.last, run.value));
    }

    /// Cuts offsets out; gives back those that were there, in order.
    pub(super) fn remove(&mut self, first: i64, last: i64) -> Vec<Run<V>> {
        let mut cut = Vec::new();
        if last < first {
            return cut;
        }
        if let Some((&start, &(end, value))) = self.runs.range(..first).next_back()
            && end >= first
        {
            self.runs.insert(start, (first - 1, value));
            self.runs.insert(first, (end, value));
        }
        while let Some((&start, &(end, value))) = self.runs.range(first..=last).next() {
            self.runs.remove(&start);
            if end > last {
                self.runs.insert(last + 1, (end, value));
            }
            cut.push(Run {
                first: start,
                last: end.min(last),
                value,
            });
        }
        self.len -= cut.iter().map(Run::len).sum::<u64>();
        cut
    }

    /// Empties the set.
    pub(super) fn take(&mut self) -> Vec<Run<V>> {
        self.len = 0;
        std::mem::take(&mut self.runs)
            .into_iter()
            .map(|(first, (last, value))| Run { first, last, value })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(first: i64, last: i64, value: u8) -> Run<u8> {
        Run { first, last, value }
    }

    #[test]
    fn neighbours_with_the_same_value_are_one_run() {
        let mut ranges = Ranges::default();
        ranges.insert(run(5, 5, 1));
        ranges.insert(run(7, 7, 1));
        ranges.insert(run(6, 6, 1));
        ranges.insert(run(8, 9, 2));
        assert_eq!(
            ranges.iter().collect::<Vec<_>>(),
            [run(5, 7, 1), run(8, 9, 2)]
        );
        assert_eq!(ranges.len(), 5);
    }

    #[test]
    fn a_cut_leaves_both_ends() {
        let mut ranges = Ranges::default();
        ranges.insert(run(0, 9, 1));
        assert_eq!(ranges.remove(3, 5), [run(3, 5, 1)]);
        assert_eq!(
            ranges.iter().collect::<Vec<_>>(),
            [run(0, 2, 1), run(6, 9, 1)]
        );
    }

    #[test]
    fn the_ends_of_the_offset_space_do_not_overflow() {
        let mut ranges = Ranges::default();
        ranges.insert(run(0, i64::MAX, 1));
        assert_eq!(
            ranges.remove(i64::MAX, i64::MAX),
            [run(i64::MAX, i64::MAX, 1)]
        );
        assert_eq!(ranges.len(), i64::MAX as u64);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_map_of_single_offsets(
            steps in prop::collection::vec((any::<bool>(), 0_i64..40, 0_i64..8, 0_u8..3), 0..60)
        ) {
            let mut ranges = Ranges::default();
            let mut model: BTreeMap<i64, u8> = BTreeMap::new();
            for (insert, first, more, value) in steps {
                let last = first + more;
                let within: Vec<(i64, u8)> = ranges.within(first, last)
                    .flat_map(|r| (r.first..=r.last).map(move |offset| (offset, r.value)))
                    .collect();
                let expected: Vec<(i64, u8)> =
                    model.range(first..=last).map(|(offset, value)| (*offset, *value)).collect();
                prop_assert_eq!(within, expected);
                for offset in first..=last {
                    let found = ranges.run(offset).map(|found| found.value);
                    prop_assert_eq!(found, model.get(&offset).copied());
                }
                if insert {
                    ranges.insert(run(first, last, value));
                    model.extend((first..=last).map(|offset| (offset, value)));
                } else {
                    let cut: Vec<(i64, u8)> = ranges.remove(first, last).iter()
                        .flat_map(|r| (r.first..=r.last).map(|offset| (offset, r.value)))
                        .collect();
                    let expected: Vec<(i64, u8)> = (first..=last)
                        .filter_map(|offset| model.remove(&offset).map(|value| (offset, value)))
                        .collect();
                    prop_assert_eq!(cut, expected);
                }
                let all: Vec<(i64, u8)> = ranges.iter()
                    .flat_map(|r| (r.first..=r.last).map(move |offset| (offset, r.value)))
                    .collect();
                prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(ranges.len(), model.len() as u64);
                let runs: Vec<Run<u8>> = ranges.iter().collect();
                for pair in runs.windows(2) {
                    prop_assert!(pair[0].last + 1 < pair[1].first || pair[0].value != pair[1].value);
                }
            }
        }
    }
}
