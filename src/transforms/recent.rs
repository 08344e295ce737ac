//! What was made of the few things that come again and again.

use std::collections::VecDeque;

use parking_lot::RwLock;

/// As many schemas as Connect's transforms remember.
const SIZE: usize = 16;

/// Answers by key; the oldest goes first. `same` tells keys apart, since
/// schemas are known by their pointer: a converter gives equal schemas the
/// same one, and comparing them would cost as much as the work saved.
pub(super) struct Recent<K, V> {
    same: fn(&K, &K) -> bool,
    known: RwLock<VecDeque<(K, V)>>,
}

impl<K: Clone, V: Clone> Recent<K, V> {
    pub(super) fn by(same: fn(&K, &K) -> bool) -> Self {
        Self {
            same,
            known: RwLock::default(),
        }
    }

    /// The answer for a key, by `make` if it is new. Errors are not kept.
    pub(super) fn get<E>(&self, key: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(value) = self.find(key) {
            return Ok(value);
        }
        let value = make()?;
        let mut known = self.known.write();
        known.truncate(SIZE - 1);
        known.push_front((key.clone(), value.clone()));
        Ok(value)
    }

    fn find(&self, key: &K) -> Option<V> {
        let known = self.known.read();
        let (_, value) = known.iter().find(|(it, _)| (self.same)(it, key))?;
        Some(value.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;
    use std::sync::Arc;

    use super::*;

    fn made(recent: &Recent<Arc<str>, usize>, key: &Arc<str>, count: &Cell<usize>) -> usize {
        let make = || {
            count.set(count.get() + 1);
            Ok::<_, Infallible>(key.len())
        };
        recent.get(key, make).unwrap()
    }

    #[test]
    fn an_answer_is_made_once() {
        let (recent, count) = (Recent::by(Arc::ptr_eq), Cell::new(0));
        let key: Arc<str> = "four".into();
        assert_eq!(made(&recent, &key, &count), 4);
        assert_eq!(made(&recent, &key, &count), 4);
        assert_eq!(count.get(), 1);
        made(&recent, &"four".into(), &count);
        assert_eq!(count.get(), 2, "another pointer is another key");
    }

    #[test]
    fn the_oldest_answer_makes_room() {
        let (recent, count) = (Recent::by(PartialEq::eq), Cell::new(0));
        let key = |number: usize| Arc::from(number.to_string());
        for number in 0..=SIZE {
            made(&recent, &key(number), &count);
        }
        made(&recent, &key(1), &count);
        assert_eq!(count.get(), SIZE + 1);
        made(&recent, &key(0), &count);
        assert_eq!(count.get(), SIZE + 2);
        assert_eq!(recent.known.read().len(), SIZE);
    }

    #[test]
    fn an_error_is_not_kept() {
        let recent: Recent<u8, u8> = Recent::by(PartialEq::eq);
        assert_eq!(recent.get(&1, || Err("no")), Err("no"));
        assert_eq!(recent.get(&1, || Ok::<_, &str>(2)), Ok(2));
    }
}
