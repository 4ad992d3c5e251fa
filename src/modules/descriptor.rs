//! Descriptors as Lua values.
//!
//! A descriptor is one of these: a socket or stream of this library, a lightuserdata that contains the number (the
//! convention of bee and ltask), an integer, a Lua `file*`, or a table or userdata with a `handle`, `fileno` or `getfd`
//! method that returns one of these. A plain number that belongs to a socket of this library in this VM is treated like
//! that socket, so that the result of a socket's `handle` method also takes the fast path.

use crate::event::{Source, Target};
use crate::lua::{Argument, Call, Fault, Function, INDEX, Kind, Maybe, Next, Nil, Outcome, Returns, then};
use crate::modules::stream::connection::Connection;
use crate::socket::{Socket, Table};
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;

/// A descriptor: its source if it belongs to this library, otherwise its number.
pub(crate) enum Descriptor {
    Own(Rc<Source>),
    Foreign(RawFd),
}

impl Descriptor {
    pub(crate) fn number(&self) -> RawFd {
        match self {
            Descriptor::Own(source) => source.as_raw_fd(),
            Descriptor::Foreign(number) => *number,
        }
    }

    pub(crate) fn target(&self) -> Target<'_> {
        match self {
            Descriptor::Own(source) => Target::Own(source),
            Descriptor::Foreign(number) => Target::Foreign(*number),
        }
    }
}

/// Runs `step` with the descriptor that argument 2 refers to, or with `None` if the descriptor is closed. If a method
/// of argument 2 must be called to get the descriptor, missing arguments up to number `arguments` are filled with nil,
/// and the method is called before `step`.
pub(crate) fn with<R, F>(call: &mut Call<'_>, arguments: i32, step: F) -> Result<Next<R>, Fault>
where
    F: Fn(&mut Call<'_>, Option<Descriptor>) -> Result<R, Fault> + Copy + 'static,
    R: Returns,
{
    // The common case: a socket of this library.
    if let Some(socket) = socket(call, 2) {
        let descriptor = socket.source().cloned().map(Descriptor::Own);
        return step(call, descriptor).map(Next::returns);
    }
    if !is_indirect(call, 2) {
        let descriptor = resolve(call, 2, 2)?;
        return step(call, descriptor).map(Next::returns);
    }
    while call.count() < arguments {
        call.push(Nil)?;
    }
    call.push(FIND)?;
    call.push(Argument(2))?;
    call.push(1i64)?;
    let resolve_result = then(move |call: &mut Call<'_>, outcome: Outcome| {
        let descriptor = match call.kind(outcome.first) {
            // The error names the type of the caller's argument.
            Kind::None => return Err(Fault::expected(2, "descriptor")),
            _ => resolve(call, outcome.first, 2)?,
        };
        step(call, descriptor)
    });
    Ok(Next::call(2, resolve_result, 0))
}

/// Returns the socket of the socket or stream at `index`; `None` for any other value.
fn socket<'c>(call: &'c Call<'_>, index: i32) -> Option<&'c Socket> {
    let stream = || Some(call.as_object::<Connection>(index)?.socket());
    call.as_object::<Socket>(index).or_else(stream)
}

/// Returns whether a method of the value at `index` must be called to get the descriptor.
fn is_indirect(call: &Call<'_>, index: i32) -> bool {
    match call.kind(index) {
        Kind::Table => true,
        Kind::Userdata => socket(call, index).is_none() && call.standard_file(index).is_none(),
        _ => false,
    }
}

/// Returns the descriptor that the value at `index` refers to; `None` if the descriptor is closed. Errors refer to
/// argument number `argument`.
fn resolve(call: &mut Call<'_>, index: i32, argument: i32) -> Result<Option<Descriptor>, Fault> {
    if let Some(socket) = socket(call, index) {
        return Ok(socket.source().cloned().map(Descriptor::Own));
    }
    if let Some(file) = call.standard_file(index) {
        return Ok(file.map(|file| Descriptor::Foreign(file.as_raw_fd())));
    }
    let number = match call.kind(index) {
        Kind::LightUserdata => call.light(index).map(|light| light.0 as isize as i64),
        Kind::Number => call.integer(index).ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| Fault::expected(argument, "descriptor"))?;
    let number = u32::try_from(number)
        .ok()
        .and_then(|number| RawFd::try_from(number).ok())
        .ok_or_else(|| Fault::argument(argument, format_args!("{number} is not a descriptor")))?;
    let known = call.shared::<Table>()?.find(number);
    Ok(Some(known.map_or(Descriptor::Foreign(number), Descriptor::Own)))
}

/// The methods that can return a descriptor.
const METHODS: [&str; 3] = ["handle", "fileno", "getfd"];

/// The maximum length of a chain of objects in which a method of each object returns the next object.
const MAX_DEPTH: i64 = 4;

/// `(value, depth)`: calls the value's method, and the method of each object that is returned. Returns the descriptor;
/// nothing if there is none.
const FIND: Function = Function::new(|call: &mut Call<'_>| find(call, 0));

/// Gets the value's method `METHODS[number]`.
fn find(call: &mut Call<'_>, number: u32) -> Result<Next<Maybe<Argument>>, Fault> {
    let Some(name) = METHODS.get(number as usize) else { return Ok(Next::returns(Maybe(None))) };
    call.push(INDEX)?;
    call.push(Argument(1))?;
    call.create(*name)?;
    Ok(Next::call(2, then(fetched), number))
}

/// Calls the method. If the value does not have the method, gets the next method.
fn fetched(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<Maybe<Argument>>, Fault> {
    if call.kind(outcome.first) != Kind::Function {
        call.drop_to(2);
        return find(call, outcome.kept + 1);
    }
    call.push(Argument(outcome.first))?;
    call.push(Argument(1))?;
    Ok(Next::call(1, then(answered), 0))
}

/// Handles the result of the method, which can again be an object with one of these methods.
fn answered(call: &mut Call<'_>, outcome: Outcome) -> Result<Next<Maybe<Argument>>, Fault> {
    if !is_indirect(call, outcome.first) {
        return Ok(Next::returns(found(call, outcome)));
    }
    let depth = call.integer(2)?;
    if depth >= MAX_DEPTH {
        return Ok(Next::returns(Maybe(None)));
    }
    call.push(FIND)?;
    call.push(Argument(outcome.first))?;
    call.push(depth + 1)?;
    let last = then(|call: &mut Call<'_>, outcome: Outcome| Ok(found(call, outcome)));
    Ok(Next::call(2, last, 0))
}

/// Returns the descriptor that the method has returned, if any.
fn found(call: &Call<'_>, outcome: Outcome) -> Maybe<Argument> {
    Maybe((call.kind(outcome.first) != Kind::None).then_some(Argument(outcome.first)))
}
