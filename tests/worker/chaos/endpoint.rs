//! The endpoint that workers deliver to. It keeps to the plan of each record,
//! unless it is in a mood, and tells what it takes in a file of that life of the
//! worker, as the sinks of the others do.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use sluice_test_support::receiver::{Arrival, Receiver, Reply};
use tokio::time::Instant;

use super::fate::{Fate, OUTAGE_MS, SLOW_MS};
use super::mood::{CRAWL, Mood, RETRY_AFTER};
use super::worn::Worn;

/// What a record is answered that fails for a while, each time.
const FAILURES: [u16; 2] = [500, 502];

pub struct Endpoint {
    receiver: Receiver,
    plan: Arc<Plan>,
}

impl Endpoint {
    /// `folder` is where it tells what it takes.
    pub async fn start(folder: &Path) -> Result<Self> {
        let plan = Arc::new(Plan::new(folder.to_owned()));
        let answers = Arc::clone(&plan);
        let receiver = Receiver::start(move |arrival| answers.reply(arrival)).await?;
        Ok(Self { receiver, plan })
    }

    /// `http.url` for a life of a worker, told in the file of that name.
    pub fn url(&self, file: &str) -> String {
        self.receiver.url(&format!("/{file}/${{key}}"))
    }

    /// Puts it into a mood for so long.
    pub fn set(&self, mood: Mood, lasts: Duration) {
        self.plan.set(mood, Instant::now() + lasts);
    }

    /// Whether it has taken so many records that were worn out, or none comes
    /// any more.
    pub fn is_done_with_worn(&self, records: usize) -> bool {
        self.plan.worn.lock().is_done(records, Instant::now())
    }
}

struct Plan {
    folder: PathBuf,
    away_until: Mutex<Option<Instant>>,
    mood: Mutex<Option<(Mood, Instant)>>,
    worn: Mutex<Worn>,
}

/// What the endpoint makes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Take,
    TakeAfter(Duration),
    Fail(u16),
    Refuse,
    TearDown,
    Never,
    Throttle,
    Away,
}

impl Plan {
    fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            away_until: Mutex::new(None),
            mood: Mutex::new(None),
            worn: Mutex::default(),
        }
    }

    fn set(&self, mood: Mood, until: Instant) {
        *self.mood.lock() = Some((mood, until));
    }

    fn reply(&self, arrival: &Arrival) -> Reply {
        let mut parts = arrival.path.split('/').skip(1);
        let file = parts.next().unwrap_or_default();
        let fate = parts.next().and_then(|key| Fate::of_key(key.as_bytes()));
        let answer = match fate {
            // Who has waited for it is taken, and nobody who gave up waiting.
            _ if arrival.is_asked_again => Answer::Take,
            Some(Fate::Worn) if self.worn.lock().fails(&arrival.body, Instant::now()) => {
                Answer::Fail(502)
            }
            Some(fate) => self.answer(fate, arrival.attempt, Instant::now()),
            None => Answer::Refuse,
        };
        match answer {
            Answer::Take => self.take(file, arrival),
            Answer::TakeAfter(wait) => Reply::AskAgain(wait),
            Answer::Fail(status) => Reply::status(status),
            Answer::Refuse => Reply::status(400),
            Answer::TearDown => Reply::Reset,
            Answer::Never => Reply::Hang,
            Answer::Throttle => {
                let seconds = RETRY_AFTER.as_secs().to_string();
                Reply::status(429).header("retry-after", &seconds)
            }
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
        if let Some(answer) = self.in_mood(now) {
            return answer;
        }
        match fate {
            Fate::Slow => Answer::TakeAfter(Duration::from_millis(SLOW_MS)),
            Fate::Retry if attempt < FAILURES.len() => Answer::Fail(FAILURES[attempt]),
            Fate::Panic if attempt == 0 => Answer::TearDown,
            Fate::Reject => Answer::Refuse,
            Fate::Plain | Fate::Retry | Fate::Panic | Fate::Outage | Fate::Worn => Answer::Take,
        }
    }

    fn in_mood(&self, now: Instant) -> Option<Answer> {
        let (mood, until) = (*self.mood.lock())?;
        let answer = match mood {
            Mood::BadGateway => Answer::Fail(502),
            Mood::Throttles => Answer::Throttle,
            Mood::Resets => Answer::TearDown,
            Mood::Silent => Answer::Never,
            Mood::Crawls => Answer::TakeAfter(CRAWL),
        };
        (now < until).then_some(answer)
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
        Plan::new(PathBuf::new())
    }

    #[test]
    fn each_record_has_the_answer_of_its_fate() {
        let (plan, now) = (plan(), Instant::now());
        let answers = |fate| [0, 1, 2].map(|attempt| plan.answer(fate, attempt, now));
        use Answer::{Fail, Refuse, Take, TakeAfter, TearDown};
        let slowly = TakeAfter(Duration::from_millis(SLOW_MS));
        assert_eq!(answers(Fate::Plain), [Take; 3]);
        assert_eq!(answers(Fate::Slow), [slowly; 3]);
        assert_eq!(answers(Fate::Retry), [Fail(500), Fail(502), Take]);
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

    #[test]
    fn a_mood_is_for_all_records_and_ends() {
        let (plan, now) = (plan(), Instant::now());
        let over = now + Duration::from_secs(1);
        for (mood, answer) in [
            (Mood::BadGateway, Answer::Fail(502)),
            (Mood::Throttles, Answer::Throttle),
            (Mood::Resets, Answer::TearDown),
            (Mood::Silent, Answer::Never),
            (Mood::Crawls, Answer::TakeAfter(CRAWL)),
        ] {
            plan.set(mood, over);
            for fate in [Fate::Plain, Fate::Reject, Fate::Slow] {
                assert_eq!(plan.answer(fate, 1, now), answer, "{mood:?}");
            }
            assert_eq!(plan.answer(Fate::Plain, 1, over), Answer::Take, "{mood:?}");
        }
    }
}
