//! Reads the open descriptors and the resident memory of another process from /proc, and checks whether they grow. The
//! torture program uses it for the server of the option `--pid`.

use std::fs;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The allowed difference between the numbers of descriptors at the start and at the end.
const DESCRIPTOR_SLACK: usize = 2;
/// The longest time that the server may take to close its connections after the run.
const SETTLING: Duration = Duration::from_secs(5);
/// The allowed growth of the memory in bytes, in addition to a fifth of its size.
const MEMORY_SLACK: u64 = 8 * 1024 * 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) descriptors: usize,
    /// The resident memory in bytes.
    pub(crate) memory: u64,
}

pub(crate) struct Probe {
    pid: u32,
    page: u64,
    start: Sample,
    /// The sample after a tenth of the run, when caches and buffers should have their final size.
    warm: Option<Sample>,
}

impl Probe {
    /// Takes the first sample. Returns an error if /proc has no such process.
    pub(crate) fn new(pid: u32) -> io::Result<Probe> {
        // SAFETY: sysconf only reads its argument.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        let mut probe = Probe { pid, page, start: Sample { descriptors: 0, memory: 0 }, warm: None };
        probe.start = probe.sample("start")?;
        Ok(probe)
    }

    /// Takes and prints the sample that the memory at the end is compared with.
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

    /// Waits until the server has closed its connections. Called after the client has closed its ends of all
    /// connections. Returns a description of each resource that has grown.
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
            println!("memory growth not checked: fewer than 10 % of the requests were made");
            return Ok(grown);
        };
        if end.memory > warm.memory + warm.memory / 5 + MEMORY_SLACK {
            grown.push(format!("memory: {} bytes at 10 %, {} at the end", warm.memory, end.memory));
        }
        Ok(grown)
    }
}
