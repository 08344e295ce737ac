//! A child process that does not outlive the tests.
//!
//! `Drop` covers the usual ends, a panic among them. A test process that is
//! killed runs no `Drop`, and a shared broker lives in a static, which is never
//! dropped. So each child has a watchdog: a shell that waits for the end of a
//! pipe that only this process holds open, then kills the child and removes
//! its folder.

use std::{
    io,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::LazyLock,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use parking_lot::Mutex;
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

/// The kernel may still be tearing the child down when the folder is removed,
/// hence the few tries.
const WATCHDOG: &str = r#"
read -r _
kill -KILL "$1"
for _ in 1 2 3 4 5; do rm -rf -- "$2" && exit; sleep 0.2; done
"#;

static CLOCK_TICKS: LazyLock<u64> = LazyLock::new(rustix::param::clock_ticks_per_second);

/// A running child and its watchdog.
#[derive(Debug)]
pub struct Process {
    name: String,
    pid: Pid,
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    child: Child,
    /// Its standard input is the pipe that it watches.
    watchdog: Child,
    status: Option<ExitStatus>,
}

/// What a process used so far, as `/proc` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// User and system time together.
    pub cpu: Duration,
    /// Highest resident set so far, in bytes; 0 once the process has ended.
    pub peak_rss_bytes: u64,
}

impl Process {
    /// Starts `command`. `folder` is what the watchdog removes if this process
    /// dies without dropping.
    ///
    /// # Errors
    /// If the command or the watchdog cannot be started.
    pub fn spawn(name: impl Into<String>, mut command: Command, folder: &Path) -> Result<Self> {
        let name = name.into();
        // Groups of their own: an interrupt typed at the terminal is for the
        // test process, and reaches the children as the end of the pipe.
        let mut child = command
            .stdin(Stdio::null())
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name} ({:?})", command.get_program()))?;
        let watchdog = spawn_watchdog(child.id(), folder).inspect_err(|_| {
            // The start has failed already; nothing can be done about a second error.
            let _ = child.kill();
            let _ = child.wait();
        })?;
        let pid = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| anyhow!("{name} has the impossible process id {}", child.id()))?;
        let life = Mutex::new(Life {
            child,
            watchdog,
            status: None,
        });
        Ok(Self { name, pid, life })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// How the process ended, if it has.
    ///
    /// # Errors
    /// If the operating system does not answer.
    pub fn exit_status(&self) -> Result<Option<ExitStatus>> {
        let mut life = self.life.lock();
        if life.status.is_none() {
            life.status = life.child.try_wait()?;
            if life.status.is_some() {
                // The id may be given to another process from now on.
                life.disarm()?;
            }
        }
        Ok(life.status)
    }

    /// Sends `signal`.
    ///
    /// # Errors
    /// If the process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        if let Some(status) = self.exit_status()? {
            bail!("{} cannot get a signal: it ended with {status}", self.name);
        }
        kill_process(self.pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Kills the process (as `kill -9`) and waits for its end.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn kill(&self) -> Result<ExitStatus> {
        let mut life = self.life.lock();
        if let Some(status) = life.status {
            return Ok(status);
        }
        life.child.kill()?;
        let status = life.child.wait()?;
        life.status = Some(status);
        life.disarm()?;
        Ok(status)
    }

    /// What the process used so far.
    ///
    /// # Errors
    /// If the process has ended and was waited for.
    pub fn usage(&self) -> Result<Usage> {
        usage(self.pid()).with_context(|| format!("{} has ended, its usage is gone", self.name))
    }
}

/// What process `pid` used so far.
///
/// # Errors
/// If there is no such process.
pub fn usage(pid: u32) -> Result<Usage> {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}"));
    Ok(Usage {
        cpu: cpu_time(&read("stat")?, *CLOCK_TICKS)
            .with_context(|| format!("/proc/{pid}/stat has another form than expected"))?,
        peak_rss_bytes: peak_rss(&read("status")?),
    })
}

impl Life {
    fn disarm(&mut self) -> io::Result<()> {
        self.watchdog.kill()?;
        self.watchdog.wait().map(|_| ())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("cannot end {}: {error:#}", self.name);
        }
    }
}

fn spawn_watchdog(pid: u32, folder: &Path) -> Result<Child> {
    Command::new("sh")
        .args(["-c", WATCHDOG, "watchdog", &pid.to_string()])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .context("cannot start sh, the watchdog of a test process")
}

/// Fields 14 and 15 of `/proc/PID/stat`. The name in field 2 may hold blanks,
/// so counting begins behind its closing bracket.
fn cpu_time(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(Duration::from_millis(
        (user + system) * 1000 / ticks_per_second,
    ))
}

fn peak_rss(status: &str) -> u64 {
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_ascii_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::eventually;

    fn sleeper(folder: &Path) -> Process {
        let mut command = Command::new("sleep");
        command.arg("600");
        Process::spawn("sleeper", command, folder).unwrap()
    }

    fn runs(pid: u32) -> bool {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    #[test]
    fn dropping_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        let pid = process.pid();
        assert!(runs(pid));
        drop(process);
        assert!(!runs(pid));
    }

    #[test]
    fn a_panic_ends_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        let pid = process.pid();
        std::thread::spawn(move || {
            let _held = process;
            panic!("on purpose");
        })
        .join()
        .unwrap_err();
        assert!(!runs(pid));
    }

    #[tokio::test]
    async fn the_end_of_the_parent_ends_the_process_and_removes_its_folder() {
        let folder = tempfile::tempdir().unwrap().keep();
        let process = sleeper(&folder);
        // What the kernel does when this process dies.
        drop(process.life.lock().watchdog.stdin.take());
        eventually(
            "child and folder are gone",
            Duration::from_secs(10),
            async || match (runs(process.pid()), folder.exists()) {
                (false, false) => Ok(()),
                state => Err(format!("(runs, folder exists) = {state:?}")),
            },
        )
        .await
        .unwrap();
    }

    #[tokio::test]
    async fn a_signal_reaches_the_process_and_an_ended_one_refuses_it() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        process.signal(Signal::TERM).unwrap();
        let status = eventually("it ends", Duration::from_secs(10), async || {
            process.exit_status().unwrap().ok_or("still runs")
        })
        .await
        .unwrap();
        assert_eq!(status.code(), None);
        let error = process.signal(Signal::TERM).unwrap_err();
        assert!(error.to_string().contains("sleeper"), "{error}");
    }

    #[test]
    fn cpu_time_is_read_behind_a_name_with_blanks_and_brackets() {
        let stat = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 150 50 9 9 20 0 1 0";
        assert_eq!(cpu_time(stat, 100), Some(Duration::from_secs(2)));
    }

    #[test]
    fn usage_of_a_running_process_has_a_resident_set() {
        let folder = tempfile::tempdir().unwrap();
        let process = sleeper(folder.path());
        assert!(process.usage().unwrap().peak_rss_bytes > 0);
    }
}
