//! `pass`: passes the messages of a WebSocket connection to a function of the program, without waiting for more.

use super::receive::{Callbacks, ON_END, ON_QUEUED, Step, advance, name};
use crate::lua::{Argument, BytesOf, Call, Closure, Fault, Function, Next, Outcome, Pushing, results, then};
use crate::modules::stream::connection::Connection;
use crate::modules::task::{own_tasks, push_tasks_object};

// The arguments of `pass`.
const CONNECTION: i32 = 1;
const WEBSOCKET: i32 = 2;
const CALLBACK: i32 = 3;

/// A call of the function with a message and its kind.
type Passing<T> = Pushing<(Argument, Argument, T, &'static str)>;

results! {
    /// The next action of `pass`.
    enum Action {
        Lent(Passing<BytesOf<Connection>>),
        Owned(Passing<Vec<u8>>),
        Plain(Next),
    }
}

/// `core.passer(on_end, on_queued)`: returns the function `pass(c, ws, callback)`, which calls `callback(ws, message,
/// kind)` for each message that has arrived. It returns when no message is left, with the connection armed; or when a
/// close frame was sent, or the connection has ended. The callbacks are those of `receiver`. `callback` may wait.
pub(super) fn passer(call: &mut Call<'_>) -> Result<Closure<Callbacks>, Fault> {
    let object = push_tasks_object(call)?;
    Ok(Closure(PASS, (Argument(object), Argument(1), Argument(2))))
}

const PASS: Function = Function::new(|call: &mut Call<'_>| {
    call.drop_to(CALLBACK);
    if let (_, Some(websocket)) = call.object_mut::<Connection>(CONNECTION)?.parts() {
        websocket.has_callbacks = true;
    }
    step(call)
});

/// Passes the next message.
fn step(call: &mut Call<'_>) -> Result<Action, Fault> {
    // One task passes the messages of all connections.
    own_tasks(call)?.run_time.work.begin();
    let connection = call.object_mut::<Connection>(CONNECTION)?;
    if connection.has_sent_close() {
        return Ok(Action::Plain(Next::returns(())));
    }
    let passing = Next::call(3, then(pass_next), 0);
    match advance(connection) {
        Step::Lent { length, kind } => {
            connection.lend(length, length);
            let message = BytesOf::at(CONNECTION);
            Ok(Action::Lent(passing.pushing((Argument(CALLBACK), Argument(WEBSOCKET), message, name(kind)))))
        }
        Step::Owned(data, kind) => {
            Ok(Action::Owned(passing.pushing((Argument(CALLBACK), Argument(WEBSOCKET), data, name(kind)))))
        }
        Step::Queued => {
            call.push(Argument(ON_QUEUED))?;
            call.push(Argument(CONNECTION))?;
            Ok(Action::Plain(Next::call(1, then(pass_next), 0)))
        }
        Step::End(code, reason) => {
            call.push(Argument(ON_END))?;
            call.push(Argument(CONNECTION))?;
            call.push(i64::from(code))?;
            call.create(reason.into_string())?;
            Ok(Action::Plain(Next::call(3, then(|_, _| Ok(())), 0)))
        }
        Step::Blocked => Ok(Action::Plain(Next::returns(()))),
    }
}

/// Continues after a function has returned.
fn pass_next(call: &mut Call<'_>, _: Outcome) -> Result<Action, Fault> {
    call.drop_to(CALLBACK);
    step(call)
}
