//! Where log lines go. `tracing` tells nobody of a line that could not be
//! written; who must know, for the line is a delivered record, asks here.

use std::cell::RefCell;
use std::io;

use tracing_subscriber::fmt::MakeWriter;

thread_local! {
    /// Why the last line of this thread was not written. An event is written
    /// by the thread that makes it, before it goes on.
    static FAILURE: RefCell<Option<io::Error>> = const { RefCell::new(None) };
}

/// Makes log lines, and tells whether they were written. An error where logging
/// goes through a [`LogWriter`]; elsewhere there is none to see.
pub fn written(log: impl FnOnce()) -> io::Result<()> {
    FAILURE.take();
    log();
    FAILURE.take().map_or(Ok(()), Err)
}

/// Notes when lines cannot be written to what it is around.
#[derive(Clone, Debug)]
pub struct LogWriter<W>(pub W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for LogWriter<W> {
    type Writer = LogWriter<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        LogWriter(self.0.make_writer())
    }
}

impl<W: io::Write> io::Write for LogWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    /// One call a line.
    fn write_all(&mut self, line: &[u8]) -> io::Result<()> {
        let written = self.0.write_all(line);
        if let Err(error) = &written {
            let error = io::Error::new(error.kind(), error.to_string());
            FAILURE.replace(Some(error));
        }
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes no more than the first line.
    struct Full(bool);

    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            match std::mem::replace(&mut self.0, true) {
                true => Err(io::ErrorKind::StorageFull.into()),
                false => Ok(bytes.len()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_is_not_written_is_told_of_once_and_to_its_thread_alone() {
        let full = parking_lot::Mutex::new(LogWriter(Full(false)));
        let write = || {
            let _ = io::Write::write_all(&mut *full.lock(), b"line");
        };
        written(write).unwrap();
        let kind = |result: io::Result<()>| result.map_err(|error| error.kind());
        let failed = Err(io::ErrorKind::StorageFull);
        assert_eq!(kind(written(write)), failed);
        assert_eq!(kind(written(|| ())), Ok(()), "of another line");
        let elsewhere = || std::thread::scope(|scope| scope.spawn(write).join().unwrap());
        assert_eq!(kind(written(elsewhere)), Ok(()));
        write();
        assert_eq!(kind(written(|| ())), Ok(()), "of an earlier line");
    }
}
