//! The endpoint that one worker delivers to. It keeps to the plan of each record,
//! and tells what it takes in a file of that life of the worker, as the sinks of
//! the others do.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use tokio::time::Instant;

use super::fate::{Fate, OUTAGE_MS, SLOW_MS};

/// How often a record fails that fails for a while.
const FAILURES: usize = 2;

pub struct Endpoint {
    receiver: Receiver,
}

impl Endpoint {
    /// `folder` is where it tells what it takes.
    pub async fn start(folder: &Path) -> Result<Self> {
        let plan = Plan {
            folder: folder.to_owned(),
            away_until: Mutex::new(None),
        };
        let receiver = Receiver::start(move |arrival| plan.reply(arrival)).await?;
        Ok(Self { receiver })
    }

    /// `http.url` for a life of a worker, told in the file of that name.
    pub fn url(&self, file: &str) -> String {
        self.receiver.url(&format!("/{file}/${{key}}"))
    }
}

struct Plan {
    folder: PathBuf,
    away_until: Mutex<Option<Instant>>,
}

/// What the endpoint makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Take,
    TakeSlowly,
    Fail,
    Refuse,
    TearDown,
    Away,
}

impl Plan {
    fn reply(&self, arrival: &Arrival) -> Reply {
        let mut parts = arrival.path.split('/').skip(1);
        let file = parts.next().unwrap_or_default();
        let fate = parts.next().and_then(|key| Fate::of_key(key.as_bytes()));
        let answer = match fate {
            Some(fate) => self.answer(fate, arrival.attempt, Instant::now()),
            None => Answer::Refuse,
        };
        let slow = Duration::from_millis(SLOW_MS);
        match answer {
            Answer::Take => self.take(file, arrival),
            Answer::TakeSlowly => Reply::After(slow, Box::new(self.take(file, arrival))),
            Answer::Fail => Reply::status(500),
            Answer::Refuse => Reply::status(400),
            Answer::TearDown => Reply::Reset,
            Answer::Away => Reply::status(503),
        }
    }

    /// Of a record that came so often before in this life of the worker.
    fn answer(&self, fate: Fate, attempt: usize, now: Instant) -> Answer {
        let mut away_until = self.away_until.lock();
        if fate == Fate::Outage && attempt == 0 {
            *away_until = Some(now + Duration::from_millis(OUTAGE_MS));
        }
        if away_until.is_some_and(|until| now < until) {
            return Answer::Away;
        }
        match fate {
            Fate::Slow => Answer::TakeSlowly,
            Fate::Retry if attempt < FAILURES => Answer::Fail,
            Fate::Panic if attempt == 0 => Answer::TearDown,
            Fate::Reject => Answer::Refuse,
            Fate::Plain | Fate::Retry | Fate::Panic | Fate::Outage => Answer::Take,
        }
    }

    /// What cannot be told was not taken.
    fn take(&self, file: &str, arrival: &Arrival) -> Reply {
        match self.tell(file, &arrival.body) {
            Ok(()) => Reply::ok(),
            Err(error) => Reply::body(503, format!("{file} cannot be written: {error}")),
        }
    }

    fn tell(&self, file: &str, body: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .create(true)
            .append(true)
            .open(self.folder.join(file))?;
        file.write_all(&[body, b"\n"].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            folder: PathBuf::new(),
            away_until: Mutex::new(None),
        }
    }

    #[test]
    fn each_record_has_the_answer_of_its_fate() {
        let (plan, now) = (plan(), Instant::now());
        let answers = |fate| [0, 1, 2].map(|attempt| plan.answer(fate, attempt, now));
        use Answer::{Fail, Refuse, Take, TakeSlowly, TearDown};
        assert_eq!(answers(Fate::Plain), [Take; 3]);
        assert_eq!(answers(Fate::Slow), [TakeSlowly; 3]);
        assert_eq!(answers(Fate::Retry), [Fail, Fail, Take]);
        assert_eq!(answers(Fate::Panic), [TearDown, Take, Take]);
        assert_eq!(answers(Fate::Reject), [Refuse; 3]);
    }

    #[test]
    fn an_outage_is_of_all_records_and_ends() {
        let (plan, now) = (plan(), Instant::now());
        let over = now + Duration::from_millis(OUTAGE_MS);
        assert_eq!(plan.answer(Fate::Outage, 0, now), Answer::Away);
        assert_eq!(plan.answer(Fate::Plain, 0, now), Answer::Away);
        assert_eq!(plan.answer(Fate::Outage, 1, over), Answer::Take);
        assert_eq!(plan.answer(Fate::Plain, 1, over), Answer::Take);
    }
}
