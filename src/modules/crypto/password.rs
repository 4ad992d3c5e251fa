//! `lio.crypto.password`: hashes passwords on other threads, because a hash takes tens of milliseconds on purpose. There
//! are three ways to get the result, for `lualib/lio/crypto/off_thread.lua`: a response to the calling service, an
//! answer that wakes a selector, and a blocking call for programs without tasks.

use crate::codec::crypto::password::{Cost, Hash, ITERATIONS, MEMORY, PARALLELISM, Refusal, SALT};
use crate::codec::pack;
use crate::event::Waker;
use crate::event::background::{Background, Refused};
use crate::ltask::message::{Message, SYSTEM, kind};
use crate::ltask::service::Service;
use crate::lua::{
    Call, Either, Failure, Fault, Function, FunctionTable, Maybe, Module, New, Nil, Object, Stack, functions,
};
use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::available_parallelism;

/// The passwords that wait for a thread, of all VMs. Each needs the memory of its hash only when its turn comes.
static QUEUE: Background = Background::new(1000);

/// A hash to compute, or a password to compare.
enum Job {
    Hash { password: Vec<u8>, salt: [u8; SALT], cost: Cost },
    Verify { password: Vec<u8>, hash: Box<Hash> },
}

/// The result of a job: a hash, or whether the password is the right one.
enum Output {
    Hash(String),
    IsRight(bool),
}

type Outcome = Result<Output, Failure>;

impl Job {
    /// The name of the call, for messages.
    fn call(&self) -> &'static str {
        match self {
            Job::Hash { .. } => "password_hash",
            Job::Verify { .. } => "password_verify",
        }
    }

    fn run(&self) -> Outcome {
        let output = match self {
            Job::Hash { password, salt, cost } => cost.hash(password, *salt).map(Output::Hash),
            Job::Verify { password, hash } => hash.verify(password).map(Output::IsRight),
        };
        output.map_err(|refusal| match refusal {
            Refusal::NotAHash => not_a_hash("password_verify"),
            Refusal::NoMemory => Failure::new(self.call(), "not enough memory", "ENOMEM"),
        })
    }

    /// Runs the job on another thread, which then calls `report` with the result.
    fn run_on_thread(self, report: impl FnOnce(Outcome) + Send + 'static) -> Result<(), Failure> {
        static THREADS: OnceLock<usize> = OnceLock::new();
        let threads = *THREADS.get_or_init(|| available_parallelism().map_or(1, NonZero::get));
        let call = self.call();
        let work = move || {
            let panicked = |_| Err(Failure::new(call, "internal error", "failed"));
            report(catch_unwind(|| self.run()).unwrap_or_else(panicked));
        };
        QUEUE.run(threads, Box::new(work)).map_err(|refused| match refused {
            Refused::Busy => Failure::new(call, "too many passwords are waiting to be hashed", "busy"),
            Refused::NoThread(error) => Failure::io(call, &error),
        })
    }
}

#[cold]
fn not_a_hash(call: &'static str) -> Failure {
    Failure::new(call, "not a password hash of Argon2", "invalid")
}

/// Reads a job from argument `first` on: `"hash", password, cost…` or `"verify", password, hash`.
fn job(stack: &Stack, first: i32) -> Result<Job, Fault> {
    let (kind, password) = (stack.bytes(first)?, stack.bytes(first + 1)?);
    if kind == b"verify" {
        let hash = Box::new(hash(stack, first + 2, "password_verify")?);
        return Ok(Job::Verify { password: password.to_vec(), hash });
    }
    let (cost, salt) = (cost(stack, first + 2)?, super::random_bytes()?);
    Ok(Job::Hash { password: password.to_vec(), salt, cost })
}

/// Returns the hash at `index`. `call` is the name of the function of `lio.crypto` for the message.
fn hash(stack: &Stack, index: i32, call: &'static str) -> Result<Hash, Fault> {
    Ok(Hash::parse(stack.bytes(index)?).ok_or_else(|| not_a_hash(call))?)
}

/// Reads a cost from three arguments, each of which may be nil.
fn cost(stack: &Stack, first: i32) -> Result<Cost, Fault> {
    let usual = Cost::default();
    let read = |index, range: RangeInclusive<u32>, usual, name| {
        let range = i64::from(*range.start())..=i64::from(*range.end());
        let value = stack.optional(index, |stack, at| stack.integer_in(at, range, name))?;
        Ok::<u32, Fault>(value.map_or(usual, |value| value as u32))
    };
    let cost = Cost {
        memory: read(first, MEMORY, usual.memory, "memory")?,
        iterations: read(first + 1, ITERATIONS, usual.iterations, "iterations")?,
        parallelism: read(first + 2, PARALLELISM, usual.parallelism, "parallelism")?,
    };
    match cost.is_valid() {
        true => Ok(cost),
        false => Err(Fault::argument(first, "memory must be at least 8 KiB for each unit of parallelism")),
    }
}

/// `password.run(job…)`: blocks the thread. Returns the result; or nil, a message and a code.
fn run(call: &mut Call<'_>) -> Result<Either<String, bool>, Fault> {
    Ok(match job(call, 1)?.run()? {
        Output::Hash(text) => Either::One(text),
        Output::IsRight(is_right) => Either::Other(is_right),
    })
}

/// `password.post(job…)`: returns a session; a RESPONSE with this session contains the results of `run`. On failure,
/// returns nil, a message and a code. Returns `false` outside a service, and where the caller cannot wait.
fn post(call: &mut Call<'_>) -> Result<Either<i64, bool>, Fault> {
    let job = job(call, 1)?;
    let Some((service, stack)) = call.data_and_stack::<Service>() else { return Ok(Either::Other(false)) };
    if !service.library.tasks().is_some_and(|tasks| tasks.can_wait(stack)) {
        return Ok(Either::Other(false));
    }
    let (system, to, session) = (service.system().clone(), service.id, service.library.next_session());
    job.run_on_thread(move |outcome| {
        let message = |values: &[_]| Message::with_values(SYSTEM, to, session, kind::RESPONSE, values);
        let message = match &outcome {
            Ok(Output::Hash(text)) => message(&[pack::Value::String(text.as_bytes())]),
            Ok(Output::IsRight(is_right)) => message(&[pack::Value::Boolean(*is_right)]),
            Err(failure) => {
                let (text, code) = (failure.message(), failure.code());
                message(&[pack::Value::Nil, pack::Value::String(text.as_bytes()), pack::Value::String(code.as_bytes())])
            }
        };
        // A service that has died does not need the result.
        let _ = system.post(message, 0);
    })?;
    Ok(Either::One(session))
}

/// The results that have not been taken yet, with the ids of their jobs.
type Results = Arc<Mutex<VecDeque<(i64, Outcome)>>>;

/// The jobs whose results wake one selector.
pub(crate) struct Jobs {
    results: Results,
    waker: Arc<Waker>,
    last: i64,
}

impl Object for Jobs {
    const NAME: &'static str = "lio.crypto.jobs";
    const METHODS: FunctionTable = functions! { start, answer };
}

/// `password.jobs(waker)`: returns an object for jobs whose results wake the selector of `waker`.
fn jobs(call: &mut Call<'_>) -> Result<New<Jobs>, Fault> {
    let waker = crate::modules::waker::argument(call, 1)?;
    Ok(New::of(Jobs { results: Results::default(), waker, last: 0 }))
}

/// `jobs:start(job…)`: returns an id, with which `answer` returns the result later; or nil, a message and a code.
fn start(call: &mut Call<'_>) -> Result<i64, Fault> {
    let (jobs, stack) = call.object_and_stack::<Jobs>(1)?;
    let job = job(stack, 2).map_err(|fault| fault.shifted(-1))?;
    let (id, results, waker) = (jobs.last + 1, jobs.results.clone(), jobs.waker.clone());
    job.run_on_thread(move |outcome| {
        results.lock().unwrap_or_else(PoisonError::into_inner).push_back((id, outcome));
        // If the selector was dropped, the result is not needed.
        let _ = waker.wake();
    })?;
    jobs.last = id;
    Ok(id)
}

type Answer = Either<Either<(i64, String), (i64, bool)>, (i64, Nil, String, &'static str)>;

/// `jobs:answer()`: returns the id of a job and the results of `run`; nothing if no result has arrived.
fn answer(call: &mut Call<'_>) -> Result<Maybe<Answer>, Fault> {
    let next = call.object::<Jobs>(1)?.results.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    Ok(Maybe(next.map(|(id, outcome)| match outcome {
        Ok(Output::Hash(text)) => Either::One(Either::One((id, text))),
        Ok(Output::IsRight(is_right)) => Either::One(Either::Other((id, is_right))),
        Err(failure) => Either::Other((id, Nil, failure.message(), failure.code())),
    })))
}

/// `password.is_outdated(hash [, memory [, iterations [, parallelism]]])`: returns whether new hashes have other
/// parameters than `hash`; or nil, a message and a code.
fn is_outdated(call: &mut Call<'_>) -> Result<bool, Fault> {
    Ok(hash(call, 1, "password_needs_rehash")?.is_outdated(cost(call, 2)?))
}

/// Opens `lio.crypto.password`.
pub(crate) const OPEN: Function =
    Function::new(|_: &mut Call<'_>| Ok(Module(functions! { run, post, jobs, is_outdated })));
