//! `websocket_client PORT CONNECTIONS SIZE SECONDS`: the closed-loop load for WebSocket servers that echo messages. Each
//! connection to 127.0.0.1:PORT sends a message of SIZE bytes, waits for its echo, compares it, and sends again. After
//! SECONDS no new round trip begins. Prints results as `name<TAB>value` lines: `requests`, `elapsed` (seconds), and the
//! percentiles `p50`, `p90`, `p99`, `p999` and `max` of the round trips (microseconds). Fails if other bytes arrive, if
//! a connection ends, or if the server sends nothing for five seconds.

#[path = "../epoll.rs"]
mod epoll;
mod frames;
#[path = "../echo/load.rs"]
mod load;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use load::Load;

/// The percentiles of the latencies that the program prints.
const PERCENTILES: [(&str, f64); 5] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)];
/// The maximum of SECONDS. A longer run is probably a mistake.
const SECONDS_MOST: f64 = 3600.0;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some(load) = options(&words) else {
        eprintln!("usage: websocket_client PORT CONNECTIONS SIZE SECONDS");
        std::process::exit(2);
    };
    if let Err(error) = drive(&load) {
        eprintln!("websocket_client: {error}");
        std::process::exit(1);
    }
}

fn options(words: &[String]) -> Option<Load> {
    let [port, connections, size, seconds] = words else {
        return None;
    };
    let seconds: f64 = seconds.parse().ok()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().ok()?));
    let (connections, size) = (connections.parse().ok()?, size.parse().ok()?);
    let time = Duration::try_from_secs_f64(seconds).ok()?;
    let (message, reply) = frames::message_and_echo(size);
    let opening = Some((frames::REQUEST, frames::HEAD_END));
    (connections > 0 && seconds <= SECONDS_MOST).then_some(Load { address, connections, opening, message, reply, time })
}

fn drive(load: &Load) -> io::Result<()> {
    let mut result = load.run()?;
    println!("requests\t{}", result.latencies.len());
    println!("elapsed\t{:.6}", result.elapsed.as_secs_f64());
    result.latencies.sort_unstable();
    for (name, share) in PERCENTILES {
        let micros = load::percentile(&result.latencies, share) as f64 / 1000.0;
        println!("{name}\t{micros:.1}");
    }
    Ok(())
}
