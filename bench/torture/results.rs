//! Counts the results of the torture program. Each request attempt counts once as sent, and once in exactly one other
//! column, so a lost request causes a difference. Also prints the details of the first failures.

use std::time::Duration;

use crate::case::Kind;
use crate::exchange::{Ending, Exchange};

const FAILURES_SHOWN: u64 = 10;
/// The maximum number of bytes printed for each side of a failed exchange.
const BYTES_SHOWN: usize = 600;

#[derive(Clone, Copy, Default)]
struct Row {
    sent: u64,
    answered: u64,
    refused: u64,
    closed: u64,
    failed: u64,
    slowest: Duration,
}

pub(crate) struct Results {
    rows: Vec<Row>,
    /// The number of requests that have ended, with any result.
    pub(crate) finished: u64,
    /// The number of failed exchanges, each of which may contain several failed requests.
    pub(crate) failures: u64,
}

impl Results {
    pub(crate) fn new() -> Results {
        Results { rows: vec![Row::default(); Kind::ROWS], finished: 0, failures: 0 }
    }

    pub(crate) fn sent(&mut self, exchange: &Exchange) {
        exchange.case.kinds().for_each(|kind| self.rows[kind.row()].sent += 1);
    }

    /// Counts an exchange that has succeeded after the time `took`.
    pub(crate) fn passed(&mut self, exchange: &Exchange, took: Duration) {
        for expected in &exchange.case.responses {
            let row = &mut self.rows[expected.kind.row()];
            row.answered += 1;
            row.slowest = row.slowest.max(took);
        }
        if let Some(kind) = exchange.case.finish.kind() {
            let row = &mut self.rows[kind.row()];
            match exchange.ending() {
                Ending::Refused => row.refused += 1,
                Ending::Closed => row.closed += 1,
            }
            row.slowest = row.slowest.max(took);
        }
        self.finished += exchange.case.requests();
    }

    /// Counts a failed exchange: requests that were answered before the failure count as answered, the other requests
    /// as failed. `sent` is the number of bytes of the case that were sent.
    pub(crate) fn failed(&mut self, exchange: &Exchange, sent: usize, reason: &str) {
        for (index, kind) in exchange.case.kinds().enumerate() {
            let row = &mut self.rows[kind.row()];
            match index < exchange.answered {
                true => row.answered += 1,
                false => row.failed += 1,
            }
        }
        self.finished += exchange.case.requests();
        self.failures += 1;
        if self.failures > FAILURES_SHOWN {
            return;
        }
        let culprit =
            exchange.case.kinds().nth(exchange.answered).map_or(String::new(), |kind| Kind::row_name(kind.row()));
        println!("FAILURE {} ({culprit}): {reason}", self.failures);
        println!("  case: {:?}, request {} of it", exchange.case.finish, exchange.answered + 1);
        println!("  sent {}", shown(&exchange.case.out[..sent]));
        println!("  received {}", shown(&exchange.inbox));
    }

    /// Prints the table. Returns the number of failed and lost requests.
    pub(crate) fn print(&self) -> u64 {
        println!(
            "{:<34}{:>9}{:>10}{:>9}{:>9}{:>9}{:>12}",
            "kind", "sent", "answered", "4xx/5xx", "closed", "failed", "slowest ms"
        );
        let mut total = Row::default();
        for (index, row) in self.rows.iter().enumerate() {
            if row.sent > 0 {
                print_row(&Kind::row_name(index), row);
            }
            if index != Kind::HangUp.row() {
                total.sent += row.sent;
                total.answered += row.answered;
                total.refused += row.refused;
                total.closed += row.closed;
            }
            total.failed += row.failed;
            total.slowest = total.slowest.max(row.slowest);
        }
        print_row("all requests", &total);
        let ended: u64 = self.rows.iter().map(|row| row.answered + row.refused + row.closed + row.failed).sum();
        let lost = self.rows.iter().map(|row| row.sent).sum::<u64>() - ended;
        if lost > 0 {
            println!("LOST: {lost} requests have no result");
        }
        total.failed + lost
    }
}

fn print_row(name: &str, row: &Row) {
    let slowest = row.slowest.as_secs_f64() * 1000.0;
    println!(
        "{name:<34}{:>9}{:>10}{:>9}{:>9}{:>9}{slowest:>12.1}",
        row.sent, row.answered, row.refused, row.closed, row.failed
    );
}

fn shown(bytes: &[u8]) -> String {
    let part = &bytes[..bytes.len().min(BYTES_SHOWN)];
    let more = if part.len() < bytes.len() { " ..." } else { "" };
    format!("{} bytes: \"{}\"{more}", bytes.len(), part.escape_ascii())
}
