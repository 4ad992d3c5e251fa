//! `torture ADDR --requests N`: sends a random mix of valid, malformed, truncated, pipelined and aborted requests to a
//! server with the routes `GET /` ("Hello, World!\n"), `GET /users/:id` (`{"id":"<id>"}`) and `POST /echo` (the body).
//! Every valid request must get the correct response. For every malformed request the server must send an appropriate
//! 4xx or 5xx status, or close the connection. With `--pid`, the server's memory and descriptors must not have grown.
//! The program has one thread and one epoll instance. The same seed produces the same requests in the same order.
//!
//! `response` parses responses, `case` defines the types, `cases` and `malformed` generate requests, `exchange` checks
//! responses, `client` and `slot` do the I/O, `results` counts, `probe` measures the server.

mod case;
mod cases;
mod client;
#[path = "../epoll.rs"]
mod epoll;
mod exchange;
mod malformed;
mod prng;
mod probe;
#[path = "../process.rs"]
mod process;
#[path = "../response.rs"]
mod response;
mod results;
mod slot;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::process::exit;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use client::{Bounds, Client};
use probe::Probe;

const USAGE: &str = "usage: torture ADDR --requests N [--connections 32] [--seed S] [--pid SERVER_PID] [--seconds 600]";

struct Options {
    address: SocketAddr,
    requests: u64,
    connections: usize,
    seed: u64,
    pid: Option<u32>,
    seconds: u64,
}

fn main() -> io::Result<()> {
    let options = options(std::env::args().skip(1)).unwrap_or_else(|fault| {
        eprintln!("torture: {fault}\n{USAGE}");
        exit(2);
    });
    process::raise_descriptor_limit()?;
    let signals = process::termination_signals()?;
    println!("seed {}", options.seed);
    let mut probe = options.pid.map(Probe::new).transpose()?;

    let began = Instant::now();
    let bounds = Bounds { requests: options.requests, deadline: began + Duration::from_secs(options.seconds) };
    let cases = cases::Cases::new(options.seed);
    let mut client = Client::new(options.address, options.connections, cases, bounds, signals.as_raw_fd())?;
    let run = client.run(probe.as_mut());
    let took = began.elapsed().as_secs_f64();

    let failed = client.results.print();
    let finished = client.results.finished;
    println!("{finished} requests in {took:.1} s: {:.0} requests/s", finished as f64 / took);
    if finished < options.requests {
        println!("stopped before {} requests: by the time limit, a signal or failures", options.requests);
    }
    run?;
    let grown = probe.map_or(Ok(Vec::new()), |probe| probe.growth())?;
    grown.iter().for_each(|what| println!("GROWTH of {what}"));
    if failed > 0 || !grown.is_empty() {
        println!("FAILED: {failed} requests; {} resources have grown", grown.len());
        exit(1);
    }
    println!("passed");
    Ok(())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let address = words.next().ok_or("no address")?;
    let mut options = Options {
        address: number("ADDR", Some(address))?,
        requests: 0,
        connections: 32,
        seed: now.as_nanos() as u64,
        pid: None,
        seconds: 600,
    };
    while let Some(word) = words.next() {
        let value = words.next();
        match word.as_str() {
            "--requests" => options.requests = number(&word, value)?,
            "--connections" => options.connections = number(&word, value)?,
            "--seed" => options.seed = number(&word, value)?,
            "--pid" => options.pid = Some(number(&word, value)?),
            "--seconds" => options.seconds = number(&word, value)?,
            _ => return Err(format!("unknown option {word}")),
        }
    }
    match (options.requests, options.connections) {
        (0, _) => Err("--requests must be 1 or more".into()),
        (_, 0) => Err("--connections must be 1 or more".into()),
        _ => Ok(options),
    }
}

fn number<T: FromStr>(name: &str, value: Option<String>) -> Result<T, String> {
    let value = value.ok_or_else(|| format!("{name} needs a value"))?;
    value.parse().map_err(|_| format!("{name}: {value} is not valid"))
}
