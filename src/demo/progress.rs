//! How the demo shows what is going on: a line that is drawn anew, or lines.

use std::io::{self, Write};
use std::time::Duration;

use sluice_actors::live_view::{LiveView, TaskState};

use super::plan::CONNECTOR;

/// Back to the first column; what is right of the new line is wiped.
const REDRAW: &str = "\r";
const WIPE: &str = "\x1b[K";

/// The figures of one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Figures {
    pub(super) accepted: u64,
    pub(super) in_flight: usize,
    pub(super) redelivered: u64,
    pub(super) tasks: usize,
    pub(super) killed: u64,
}

impl Figures {
    pub(super) fn of(view: &LiveView) -> Self {
        let connector = view.connector(CONNECTOR).unwrap_or_default();
        let tasks = view.tasks(CONNECTOR);
        let alive = tasks.iter().filter(|(_, it)| *it == TaskState::Running);
        Self {
            accepted: connector.totals.accepted,
            in_flight: connector.in_flight,
            redelivered: connector.totals.redelivered,
            tasks: alive.count(),
            killed: connector.tasks_replaced,
        }
    }
}

/// Where the progress is shown.
pub(super) struct Progress<'a> {
    out: &'a mut dyn Write,
    in_place: bool,
    shown: Option<(Duration, Figures)>,
}

impl<'a> Progress<'a> {
    /// `in_place`: one line, drawn anew each time, as a terminal can.
    pub(super) fn new(out: &'a mut dyn Write, in_place: bool) -> Self {
        Self {
            out,
            in_place,
            shown: None,
        }
    }

    /// Shows the figures after so much time.
    pub(super) fn show(&mut self, after: Duration, figures: Figures) -> io::Result<()> {
        let rate = self.rate(after, figures.accepted);
        self.shown = Some((after, figures));
        let line = line(after, rate, &figures);
        if self.in_place {
            write!(self.out, "{REDRAW}{line}{WIPE}")?;
        } else {
            writeln!(self.out, "{line}")?;
        }
        self.out.flush()
    }

    /// Shows the last figures, with the rate of the whole time, and leaves the
    /// line that is drawn anew.
    pub(super) fn end(mut self, after: Duration, figures: Figures) -> io::Result<()> {
        self.shown = None;
        self.show(after, figures)?;
        if self.in_place {
            writeln!(self.out)?;
        }
        Ok(())
    }

    /// Accepted a second since the last time.
    fn rate(&self, after: Duration, accepted: u64) -> f64 {
        let (then, before) = self.shown.unwrap_or_default();
        let more = accepted.saturating_sub(before.accepted);
        let lasted = after.saturating_sub(then).as_secs_f64();
        if lasted > 0.0 {
            more as f64 / lasted
        } else {
            0.0
        }
    }
}

/// No longer than 80 columns, or a terminal could not draw it anew.
fn line(after: Duration, rate: f64, figures: &Figures) -> String {
    let Figures {
        accepted,
        in_flight,
        redelivered,
        tasks,
        killed,
    } = figures;
    format!(
        "{:>3} s {rate:>5.0}/s {accepted:>6} accepted {in_flight:>3} in flight \
         {redelivered:>3} redelivered {tasks:>2} tasks {killed} killed",
        after.as_secs(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: Figures = Figures {
        accepted: 500,
        in_flight: 110,
        redelivered: 9,
        tasks: 49,
        killed: 3,
    };

    fn shown(in_place: bool) -> String {
        let mut out = Vec::new();
        let mut progress = Progress::new(&mut out, in_place);
        progress.show(Duration::from_secs(1), FIGURES).unwrap();
        let more = Figures {
            accepted: 2500,
            ..FIGURES
        };
        progress.show(Duration::from_secs(3), more).unwrap();
        progress.end(Duration::from_secs(5), more).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_terminal_gets_one_line_that_is_drawn_anew() {
        let text = shown(true);
        assert_eq!(text.matches('\r').count(), 3);
        assert_eq!(text.matches('\n').count(), 1);
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn a_pipe_gets_plain_lines() {
        let text = shown(false);
        assert_eq!(text.lines().count(), 3);
        assert!(!text.contains(['\r', '\x1b']));
    }

    #[test]
    fn the_rate_is_that_since_the_last_line_and_in_the_end_that_of_all() {
        let text = shown(false);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].contains("  500/s "), "{text}");
        assert!(lines[1].contains(" 1000/s "), "{text}");
        assert!(lines[2].contains("  500/s "), "{text}");
        for part in [
            "2500 accepted",
            "110 in flight",
            "9 redelivered",
            "49 tasks 3 killed",
        ] {
            assert!(lines[1].contains(part), "{text}");
        }
    }

    #[test]
    fn a_line_fits_a_terminal() {
        let figures = Figures {
            accepted: 100_000,
            in_flight: 1000,
            redelivered: 999,
            tasks: 100,
            killed: 24,
        };
        let line = line(Duration::from_secs(600), 10_000.0, &figures);
        assert!(line.len() <= 80, "{}: {line}", line.len());
    }
}
