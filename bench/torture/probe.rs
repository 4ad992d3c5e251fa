//! Samples another process's open descriptors and resident memory from /proc, and decides whether they grew. Used by
//! the torture program on the server that it is given by `--pid`.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What a descriptor count may differ by at the end.
const DESCRIPTOR_SLACK: usize = 2;
const SETTLING: Duration = Duration::from_secs(5);
const MEMORY_SLACK: u64 = 8 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) descriptors: usize,
    /// Resident bytes.
    pub(crate) memory: u64,
}

pub(crate) struct Probe {
    pid: u32,
    page: u64,
    start: Sample,
    /// Taken after a tenth of the run, when caches and buffers are as large as they should get.
    warm: Option<Sample>,
}

impl Probe {
    /// Takes the first sample; fails when the process cannot be read.
    pub(crate) fn new(pid: u32) -> io::Result<Probe> {
        // SAFETY: sysconf only reads its argument.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let mut probe = Probe { pid, page, start: Sample { descriptors: 0, memory: 0 }, warm: None };
        probe.start = probe.sample("start")?;
        Ok(probe)
    }

    /// Takes and prints the sample that memory at the end is compared with.
    pub(crate) fn warm(&mut self) -> io::Result<()> {
        self.warm = Some(self.sample("10 %")?);
        Ok(())
    }

    /// Takes and prints a sample.
    pub(crate) fn sample(&self, label: &str) -> io::Result<Sample> {
        let sample = self.read()?;
        println!(
            "server at {label:>5}: {} descriptors, {:.1} MiB resident",
            sample.descriptors,
            sample.memory as f64 / 1048576.0
        );
        Ok(sample)
    }

    fn read(&self) -> io::Result<Sample> {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.pid))?.count();
        let statm = fs::read_to_string(format!("/proc/{}/statm", self.pid))?;
        let pages = statm.split(' ').nth(1).and_then(|word| word.parse::<u64>().ok());
        let pages = pages.ok_or_else(|| io::Error::other("statm without a second number"))?;
        Ok(Sample { descriptors, memory: pages * self.page })
    }

    /// Waits for the descriptors to settle, once the client has none open, and returns what grew, in words.
    pub(crate) fn growth(&self) -> io::Result<Vec<String>> {
        let deadline = Instant::now() + SETTLING;
        let settled = |sample: Sample| sample.descriptors.abs_diff(self.start.descriptors) <= DESCRIPTOR_SLACK;
        while !settled(self.read()?) && Instant::now() < deadline {
            sleep(Duration::from_millis(50));
        }
        let end = self.sample("end")?;
        let mut grown = Vec::new();
        if !settled(end) {
            grown.push(format!("descriptors: {} at the start, {} at the end", self.start.descriptors, end.descriptors));
        }
        let Some(warm) = self.warm else {
            println!("memory growth not judged: fewer than 10 % of the requests were made");
            return Ok(grown);
        };
        if end.memory > warm.memory + warm.memory / 5 + MEMORY_SLACK {
            grown.push(format!("memory: {} bytes at 10 %, {} at the end", warm.memory, end.memory));
        }
        Ok(grown)
    }
}
