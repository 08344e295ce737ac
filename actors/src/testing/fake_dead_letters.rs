//! A dead-letter queue in memory: what it does with each letter is a function
//! of the test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;

use crate::outcome::Cause;
use crate::ports::dead_letter::{DeadLetter, DeadLetterQueue};

/// What to do with a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Post {
    Keep,
    KeepAfter(Duration),
    Fail,
    Panic,
    /// The write does not come back.
    Hang,
}

type Plan = Arc<dyn Fn(&DeadLetter, usize) -> Post + Send + Sync>;

/// See the module. Clones are the same queue.
#[derive(Clone)]
pub struct FakeDeadLetters {
    plan: Arc<Mutex<Plan>>,
    kept: Arc<Mutex<Vec<DeadLetter>>>,
    tries: Arc<Mutex<Vec<i64>>>,
}

impl FakeDeadLetters {
    /// The plan gets each letter, and how often its offset was tried before.
    pub fn new(plan: impl Fn(&DeadLetter, usize) -> Post + Send + Sync + 'static) -> Self {
        Self {
            plan: Arc::new(Mutex::new(Arc::new(plan))),
            kept: Arc::default(),
            tries: Arc::default(),
        }
    }

    /// Goes by another plan from now on.
    pub fn follow(&self, plan: impl Fn(&DeadLetter, usize) -> Post + Send + Sync + 'static) {
        *self.plan.lock() = Arc::new(plan);
    }

    /// All letters that it has, in the order in which they were kept.
    #[must_use]
    pub fn kept(&self) -> Vec<DeadLetter> {
        self.kept.lock().clone()
    }

    /// The offsets of the letters that it has, in order.
    #[must_use]
    pub fn kept_offsets(&self) -> Vec<i64> {
        let kept = self.kept.lock();
        let mut offsets: Vec<i64> = kept.iter().map(|letter| letter.record.offset).collect();
        offsets.sort_unstable();
        offsets
    }

    /// How often it was asked to write something.
    #[must_use]
    pub fn tries(&self) -> usize {
        self.tries.lock().len()
    }
}

#[async_trait]
impl DeadLetterQueue for FakeDeadLetters {
    async fn write(&self, letter: &DeadLetter) -> Result<(), Cause> {
        let post = {
            let mut tries = self.tries.lock();
            let before = tries.iter().filter(|it| **it == letter.record.offset);
            let before = before.count();
            tries.push(letter.record.offset);
            let plan = Arc::clone(&self.plan.lock());
            plan(letter, before)
        };
        match post {
            Post::Keep => {}
            Post::KeepAfter(time) => tokio::time::sleep(time).await,
            Post::Fail => return Err("dead by plan".into()),
            Post::Panic => panic!("by plan"),
            Post::Hang => std::future::pending().await,
        }
        self.kept.lock().push(letter.clone());
        Ok(())
    }
}
