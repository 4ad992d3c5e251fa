//! `selector_baseline REGISTERED ACTIVE SECONDS`: the minimal program that round.lua is compared with. It makes the
//! same system calls with raw level-triggered epoll, and prints the same results. REGISTERED descriptors, the ends of
//! socket pairs, are registered. A round sends one byte to each of ACTIVE descriptors, waits, and reads from the ready
//! descriptors.

#[path = "../epoll.rs"]
mod epoll;
#[path = "../process.rs"]
mod process;

use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use epoll::{Epoll, NO_EVENT};

/// The number of rounds between two reads of the clock.
const BATCH: u64 = 100;

struct Rounds {
    epoll: Epoll,
    /// The ends of all pairs. The two ends of a pair are next to each other.
    ends: Vec<UnixStream>,
    /// The indexes of the sockets that send, spread evenly.
    senders: Vec<usize>,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((registered, active, time)) = options(&words) else {
        eprintln!("usage: selector_baseline REGISTERED ACTIVE SECONDS   (REGISTERED: even)");
        std::process::exit(2);
    };
    process::raise_descriptor_limit()?;
    let mut rounds = Rounds::new(registered, active)?;
    rounds.run(BATCH)?;
    let (start, cpu) = (Instant::now(), process::cpu_time()?);
    let mut done = 0;
    while start.elapsed() < time {
        rounds.run(BATCH)?;
        done += BATCH;
    }
    let (elapsed, used) = (start.elapsed(), process::cpu_time()? - cpu);
    println!("rate\t{:.1}", done as f64 / elapsed.as_secs_f64());
    println!("each\t{:.4}", used.as_secs_f64() / done as f64 * 1e6);
    println!("rounds\t{done}");
    Ok(())
}

fn options(words: &[String]) -> Option<(usize, usize, Duration)> {
    let [registered, active, seconds] = words else {
        return None;
    };
    let registered: usize = registered.parse().ok()?;
    let active = active.parse().ok()?;
    let time = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
    let is_valid = registered.is_multiple_of(2) && (1..=registered).contains(&active);
    (is_valid && !time.is_zero()).then_some((registered, active, time))
}

impl Rounds {
    fn new(registered: usize, active: usize) -> io::Result<Rounds> {
        let epoll = Epoll::new()?;
        let mut ends = Vec::with_capacity(registered);
        for _ in 0..registered / 2 {
            let (one, other) = UnixStream::pair()?;
            for end in [one, other] {
                end.set_nonblocking(true)?;
                let fd = end.as_raw_fd();
                let token = ends.len() as u64;
                epoll.control(libc::EPOLL_CTL_ADD, fd, libc::EPOLLIN, token)?;
                ends.push(end);
            }
        }
        // The ends of a pair are next to each other, so the peer of `i` has the index `i ^ 1`.
        let senders = (0..active).map(|k| (k * registered / active) ^ 1).collect();
        Ok(Rounds { epoll, ends, senders })
    }

    fn run(&mut self, count: u64) -> io::Result<()> {
        let mut events = [NO_EVENT; 256];
        let mut input = [0; 16];
        for _ in 0..count {
            for &sender in &self.senders {
                self.ends[sender].write_all(b"x")?;
            }
            let mut left = self.senders.len();
            while left > 0 {
                let ready = self.epoll.wait(&mut events, -1)?;
                for event in &events[..ready] {
                    left -= self.ends[event.u64 as usize].read(&mut input)?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_reads_all_bytes_of_the_active_descriptors() {
        for (registered, active) in [(2, 1), (10, 10), (100, 1), (100, 10)] {
            let mut rounds = Rounds::new(registered, active).unwrap();
            rounds.run(3).unwrap();
            assert_eq!(rounds.senders.len(), active);
            assert_eq!(rounds.epoll.wait(&mut [NO_EVENT; 8], 0).unwrap(), 0);
        }
    }

    #[test]
    fn odd_numbers_and_too_many_active_descriptors_are_refused() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert!(options(&words("10 10 0.5")).is_some());
        for text in ["9 1 1", "10 11 1", "10 0 1", "10 1 0", "10 1 -1", "10 1"] {
            assert!(options(&words(text)).is_none(), "{text}");
        }
    }
}
