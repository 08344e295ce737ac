//! How a put ends that has several requests.

use sluice_actors::ports::sink::SinkError;

/// So many answers in a row that say that the endpoint takes nothing now are
/// believed. A single one may be due to its record, which must not keep those
/// behind it from being tried, for ever if it is for ever.
const REFUSALS: usize = 2;

/// What the records without an outcome are told, and whether the put goes on.
#[derive(Debug, Default)]
pub(super) struct PutEnd {
    error: Option<SinkError>,
    refusals: usize,
    pub(super) is_over: bool,
}

impl PutEnd {
    pub(super) fn answered(&mut self, answer: Result<(), SinkError>) {
        let Err(error) = answer else {
            self.refusals = 0;
            return;
        };
        match error {
            // Other batches are not to wait for one with a bad record.
            SinkError::RejectedOne(_) => self.refusals = 0,
            SinkError::Unavailable(_) => {
                self.refusals += 1;
                self.is_over |= self.refusals >= REFUSALS;
            }
            SinkError::UnavailableFor(..) | SinkError::Retry(_) | SinkError::Fatal(_) => {
                self.is_over = true;
            }
        }
        if weight(Some(&error)) > weight(self.error.as_ref()) {
            self.error = Some(error);
        }
    }

    pub(super) fn result(self) -> Result<(), SinkError> {
        self.error.map_or(Ok(()), Err)
    }
}

/// Which error speaks for the others: one that blames nobody is true of all,
/// while a batch with a bad record will be refused again.
fn weight(error: Option<&SinkError>) -> usize {
    match error {
        None => 0,
        Some(SinkError::RejectedOne(_)) => 1,
        Some(SinkError::Unavailable(_)) => 2,
        Some(_) => 3,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn unavailable() -> SinkError {
        SinkError::Unavailable("down".into())
    }

    #[test]
    fn what_blames_nobody_outweighs_a_batch_with_a_bad_record() {
        let mut end = PutEnd::default();
        end.answered(Err(SinkError::RejectedOne("bad".into())));
        end.answered(Err(unavailable()));
        end.answered(Err(SinkError::RejectedOne("bad".into())));
        assert!(!end.is_over, "other batches are not to wait");
        assert_eq!(end.result(), Err(unavailable()));
        assert_eq!(PutEnd::default().result(), Ok(()));
    }

    #[test]
    fn a_put_is_over_when_the_endpoint_says_so_twice_or_for_how_long() {
        let mut end = PutEnd::default();
        for answer in [Err(unavailable()), Ok(()), Err(unavailable())] {
            end.answered(answer);
            assert!(!end.is_over);
        }
        end.answered(Err(unavailable()));
        assert!(end.is_over);

        let mut end = PutEnd::default();
        let told = SinkError::UnavailableFor("throttled".into(), Duration::from_secs(7));
        end.answered(Err(unavailable()));
        end.answered(Err(told.clone()));
        assert!(end.is_over);
        assert_eq!(end.result(), Err(told), "it knows more");
    }
}
