//! What the operating system says of this process.

use std::time::Duration;

const TICKS: &str = "/proc/self/stat";
const BOOT: &str = "/proc/stat";
const OPEN_FILES: &str = "/proc/self/fd";

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
    pub virtual_bytes: u64,
    pub threads: u64,
    pub open_files: u64,
    /// Seconds since 1970.
    pub started: f64,
}

/// The sizes that the kernel counts in.
#[derive(Clone, Copy, Debug)]
struct Units {
    ticks_per_second: u64,
    page_bytes: u64,
}

impl ProcessFigures {
    /// `None` where there is no Linux to ask.
    #[must_use]
    pub fn now() -> Option<Self> {
        let units = Units {
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            page_bytes: rustix::param::page_size() as u64,
        };
        let own = std::fs::read_to_string(TICKS).ok()?;
        let boot = std::fs::read_to_string(BOOT).ok()?;
        let figures = Self::parse(&own, &boot, units)?;
        let open_files = std::fs::read_dir(OPEN_FILES).ok()?.count() as u64;
        Some(Self {
            // Without the one that counts.
            open_files: open_files.saturating_sub(1),
            ..figures
        })
    }

    /// By `proc(5)`. The name in front may hold anything, brackets too.
    fn parse(own: &str, boot: &str, units: Units) -> Option<Self> {
        let (_, fields) = own.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Field 3, the state, is the first one behind the name.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let seconds = |ticks: u64| ticks as f64 / units.ticks_per_second as f64;
        let booted = boot.lines().find_map(|line| line.strip_prefix("btime "))?;
        let booted = Duration::from_secs(booted.trim().parse().ok()?);
        Some(Self {
            cpu_seconds: seconds(field(14)? + field(15)?),
            threads: field(20)?,
            started: booted.as_secs_f64() + seconds(field(22)?),
            virtual_bytes: field(23)?,
            resident_bytes: field(24)? * units.page_bytes,
            open_files: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_fields_are_read_behind_any_name() {
        let own = "7 (a b) c) R 1 7 7 0 -1 0 0 0 0 0 250 50 0 0 20 0 9 0 4200 8192 3 0";
        let boot = "cpu 1 2\nbtime 1700000000\nprocesses 5\n";
        let units = Units {
            ticks_per_second: 100,
            page_bytes: 4096,
        };
        let figures = ProcessFigures::parse(own, boot, units).unwrap();
        assert!((figures.cpu_seconds - 3.0).abs() < 1e-9, "{figures:?}");
        assert!((figures.started - 1_700_000_042.0).abs() < 1e-3);
        assert_eq!((figures.threads, figures.virtual_bytes), (9, 8192));
        assert_eq!(figures.resident_bytes, 3 * 4096);
        assert_eq!(ProcessFigures::parse("7 (x) R 1", boot, units), None);
    }

    #[test]
    fn this_process_is_told_of() {
        let figures = ProcessFigures::now().unwrap();
        assert!(figures.resident_bytes > 1 << 20, "{figures:?}");
        assert!(figures.threads > 0 && figures.open_files > 0);
        let since = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64() - figures.started;
        assert!((-60.0..86_400.0).contains(&since), "{since}");
    }
}
