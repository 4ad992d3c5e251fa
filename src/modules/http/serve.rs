//! `http.serve`: takes work from a server, calls the handlers, and passes their results to the server. If a handler
//! returns a body and has set only status, fields and media type, the response is sent here; otherwise
//! lualib/lio/web/ completes it.

use super::machine::Machine;
use super::request::{Request, SERVER};
use crate::http::router::routes::{HandlerArguments, RouteId};
use crate::http::server::{
    Body, HandlerEffect, MAX_QUEUED_BODY, MediaType, Plan, RequestEnd, RequestId, Responded, Response, ResumeReason,
    Work,
};
use crate::lua::{
    Argument, Call, Fault, Function, FunctionTable, Kind, MadeBy, Maker, Next, Nil, Object, Outcome, Pushing, Row,
    Stack, functions, results, then,
};
use crate::modules::json;
use std::rc::Rc;

/// The stack indices of the values of `serve`.
mod at {
    pub(super) const TASK: i32 = 1;
    pub(super) const SERVER: i32 = 2;
    /// The state that the Lua functions below get.
    pub(super) const SERVING: i32 = 3;
    /// The message handler of protected calls.
    pub(super) const CAUGHT: i32 = 4;
    /// The handlers by route.
    pub(super) const HANDLERS: i32 = 5;
    /// The metatable of responses.
    pub(super) const RESPONSES: i32 = 6;
    /// `choose(serving, req, res, route)`: returns the handler, if the route alone does not determine it.
    pub(super) const CHOOSE: i32 = 7;
    /// `complete(serving, req, res, ok, a, b, c)`: completes a request. Returns whether the connection continues.
    pub(super) const COMPLETE: i32 = 8;
    /// `resume(serving, id, reason)`: resumes a task that waits on a request; without `id`, reports that a connection
    /// has closed.
    pub(super) const RESUME: i32 = 9;
    /// The names of two fields of responses.
    pub(super) const CODE: i32 = 10;
    pub(super) const KIND: i32 = 11;
    /// The handler, or nil, and for handlers with arguments the request and the response.
    pub(super) const REQUEST: i32 = 13;
    pub(super) const RESPONSE: i32 = 14;
}

/// The number of preallocated fields of a response: code, body, kind.
const NAMED: i32 = 3;

/// The state of a task that serves.
pub(crate) struct ServingTask {
    machine: Rc<Machine>,
    /// The request that is being handled.
    id: Option<RequestId>,
    /// The text of JSON responses.
    text: Vec<u8>,
}

impl ServingTask {
    pub(super) fn new(machine: Rc<Machine>) -> Self {
        ServingTask { machine, id: None, text: Vec::new() }
    }
}

impl Object for ServingTask {
    const NAME: &'static str = "lio.http.run";
    const METHODS: FunctionTable = functions! { abandon };
}

/// The Lua object of the request that is being handled.
impl Maker for ServingTask {
    type Made = Request;

    fn size(&self) -> usize {
        let mut server = self.machine.server.borrow_mut();
        let head = self.id.and_then(|id| server.head(id));
        head.map_or(0, |head| head.head.head_len)
    }

    fn make(&mut self, bytes: &mut [u8]) -> Option<Request> {
        let id = self.id?;
        let mut server = self.machine.server.borrow_mut();
        let route = server.route(id);
        let made = Request::copy(server.head(id)?, route, id.number(), bytes)?;
        server.take_head(id);
        Some(made)
    }
}

/// The request that is being handled, with its server.
type MakeRequest = MadeBy<ServingTask, 1>;

fn make_request() -> MakeRequest {
    MadeBy { maker: at::TASK, fields: [(SERVER, at::SERVER)] }
}

/// `{ server, id, request }`
type MakeResponse = Row<(Argument, i64, Argument)>;

fn make_response(id: RequestId, request: i32) -> MakeResponse {
    Row {
        items: (Argument(at::SERVER), id.number() as i64, Argument(request)),
        named: NAMED,
        metatable: Some(at::RESPONSES),
    }
}

results! {
    /// The next action of `serve`.
    pub(crate) enum Action {
        Plain(Next),
        One(Pushing<(MakeRequest, Nil, Argument, Argument)>),
        Two(Pushing<(MakeRequest, MakeResponse, Argument, Argument, Argument)>),
        Choose(Pushing<(MakeRequest, MakeResponse, Argument, Argument, Argument, Argument, i64)>),
    }
}

/// `http.serve(task, …)`, see [`at`]: does the work of a server. It runs in a task, because handlers may wait.
pub(crate) const SERVE: Function = Function::new(serve);

fn serve(call: &mut Call<'_>) -> Result<Action, Fault> {
    let (task, stack) = call.split::<ServingTask>(at::TASK)?;
    next_work(task, stack)
}

/// Takes the next work.
fn next_work(task: &mut ServingTask, stack: &mut Stack) -> Result<Action, Fault> {
    stack.drop_to(at::KIND);
    let machine = &*task.machine;
    let work = machine.server.borrow_mut().next(machine.clock());
    match work {
        Work::Dispatch { id, plan } => {
            task.id = Some(id);
            machine.count_request();
            match plan {
                Plan::Handle { route, arguments: HandlerArguments::Nothing } => {
                    stack.element(at::HANDLERS, route.number())?;
                    Ok(Action::Plain(Next::protected(0, -1, at::CAUGHT, then(handled), 0)))
                }
                Plan::Handle { route, arguments } => handle(stack, id, route, arguments),
                Plan::Choose { route } => choose(stack, id, route),
            }
        }
        Work::Resume { id, reason } => resume(stack, Some((id, reason))),
        Work::ConnectionClosed => resume(stack, None),
        Work::Idle => {
            task.id = None;
            Ok(Action::Plain(Next::pushed(0)))
        }
    }
}

/// Calls a handler that takes the request.
fn handle(stack: &mut Stack, id: RequestId, route: RouteId, arguments: HandlerArguments) -> Result<Action, Fault> {
    let handler = stack.element(at::HANDLERS, route.number())?;
    let (request, response) = (at::REQUEST, at::RESPONSE);
    Ok(match arguments {
        HandlerArguments::Both => Action::Two(Next::protected(2, -1, at::CAUGHT, then(handled), 0).pushing((
            make_request(),
            make_response(id, request),
            Argument(handler),
            Argument(request),
            Argument(response),
        ))),
        _ => Action::One(Next::protected(1, -1, at::CAUGHT, then(handled), 0).pushing((
            make_request(),
            Nil,
            Argument(handler),
            Argument(request),
        ))),
    })
}

/// Calls Lua code to choose a handler.
fn choose(stack: &mut Stack, id: RequestId, route: Option<RouteId>) -> Result<Action, Fault> {
    stack.push(Nil)?;
    Ok(Action::Choose(Next::call(4, then(chosen), 0).pushing((
        make_request(),
        make_response(id, at::REQUEST),
        Argument(at::CHOOSE),
        Argument(at::SERVING),
        Argument(at::REQUEST),
        Argument(at::RESPONSE),
        route.map_or(0, RouteId::number),
    ))))
}

/// Calls the chosen handler.
fn chosen(call: &mut Call<'_>, outcome: Outcome) -> Result<Next, Fault> {
    call.drop_to(outcome.first);
    call.push(Argument(at::REQUEST))?;
    call.push(Argument(at::RESPONSE))?;
    Ok(Next::protected(2, -1, at::CAUGHT, then(handled_chosen), 0))
}

/// Calls Lua code to resume a task that waits on a request, or one that waits for a connection to close.
#[cold]
fn resume(stack: &mut Stack, resumed: Option<(RequestId, ResumeReason)>) -> Result<Action, Fault> {
    stack.push(Argument(at::RESUME))?;
    stack.push(Argument(at::SERVING))?;
    let mut arguments = 1;
    if let Some((id, reason)) = resumed {
        stack.push(id.number() as i64)?;
        stack.push(reason as i64)?;
        arguments = 3;
    }
    Ok(Action::Plain(Next::call(arguments, then(|call, _| serve(call)), 0)))
}

/// Continues after a handler of a route has returned or raised an error.
fn handled(call: &mut Call<'_>, outcome: Outcome) -> Result<Action, Fault> {
    let (task, stack) = call.split::<ServingTask>(at::TASK)?;
    let Some(id) = task.id else {
        return Ok(Action::Plain(Next::pushed(0)));
    };
    match outcome.ok && respond(task, stack, id, outcome.first) {
        true => end_request(task, stack, id, RequestEnd::Complete),
        false => complete(call, id, outcome),
    }
}

/// Continues after a chosen handler.
fn handled_chosen(call: &mut Call<'_>, outcome: Outcome) -> Result<Action, Fault> {
    match call.object::<ServingTask>(at::TASK)?.id {
        Some(id) => complete(call, id, outcome),
        None => Ok(Action::Plain(Next::pushed(0))),
    }
}

/// Ends the request and takes the next work.
#[inline]
fn end_request(task: &mut ServingTask, stack: &mut Stack, id: RequestId, end: RequestEnd) -> Result<Action, Fault> {
    task.machine.server.borrow_mut().end(id, end);
    next_work(task, stack)
}

/// Responds with the values that a handler has returned, from `first` on. Returns whether the request is complete.
#[inline]
fn respond(task: &mut ServingTask, stack: &mut Stack, id: RequestId, first: i32) -> bool {
    let mut server = task.machine.server.borrow_mut();
    let Some(effect) = server.effect(id) else {
        // A served folder may have queued the whole response.
        return server.is_whole(id);
    };
    if effect == HandlerEffect::NeedsLua || stack.count() > first {
        return false;
    }
    let (status, untyped) = match effect {
        HandlerEffect::None => (200, false),
        _ => match response_settings(stack) {
            Some(found) => found,
            None => return false,
        },
    };
    let text = &mut task.text;
    let (media_type, body) = if let Some(body) = stack.string(first) {
        (if untyped { MediaType::None } else { MediaType::Text }, body)
    } else if stack.kind(first) == Kind::Table && (first <= at::RESPONSE || !stack.is_same(first, at::RESPONSE)) {
        text.clear();
        if !json::append(stack, first, text) {
            return false;
        }
        (MediaType::Json, &text[..])
    } else {
        return false;
    };
    if body.len() > MAX_QUEUED_BODY {
        return false;
    }
    let response = Response { status, media_type, body: Body::Bytes(body) };
    let done = server.respond(id, response, task.machine.clock()) == Responded::Done;
    text.shrink_to(1 << 16);
    done
}

/// Returns the status of the response, and whether its body is sent without a media type; `None` for an invalid status.
fn response_settings(stack: &mut Stack) -> Option<(u16, bool)> {
    let code = stack.get(at::RESPONSE, at::CODE).ok()?;
    let status = match stack.as_integer(code) {
        Some(status @ 200..=599) => status as u16,
        None if stack.is_none(code) => 200,
        _ => return None,
    };
    let kind = stack.get(at::RESPONSE, at::KIND).ok()?;
    let untyped = stack.kind(kind) == Kind::Boolean;
    stack.drop_to(code - 1);
    Some((status, untyped))
}

/// Calls Lua code to complete the request.
fn complete(call: &mut Call<'_>, id: RequestId, outcome: Outcome) -> Result<Action, Fault> {
    let (first, values) = (outcome.first, if outcome.ok { 3 } else { 1 });
    call.drop_to(first + values - 1);
    while call.count() < first + values - 1 {
        call.push(Nil)?;
    }
    let (mut request, mut response) = (at::REQUEST, at::RESPONSE);
    if first <= at::RESPONSE {
        request = call.create(make_request())?;
        if outcome.ok {
            // For example, the response is long. Later requests of this route will need a request object as well.
            let machine = &call.object::<ServingTask>(at::TASK)?.machine;
            machine.server.borrow_mut().needs_request(id);
        }
    }
    if first <= at::RESPONSE || call.is_none(response) {
        response = call.create(make_response(id, request))?;
    }
    for index in [at::COMPLETE, at::SERVING, request, response] {
        call.push(Argument(index))?;
    }
    call.push(outcome.ok)?;
    for index in first..first + values {
        call.push(Argument(index))?;
    }
    Ok(Action::Plain(Next::call(4 + values, then(completed), 0)))
}

fn completed(call: &mut Call<'_>, outcome: Outcome) -> Result<Action, Fault> {
    let end = if call.is_true(outcome.first) { RequestEnd::Complete } else { RequestEnd::Cut };
    let (task, stack) = call.split::<ServingTask>(at::TASK)?;
    match task.id {
        Some(id) => end_request(task, stack, id, end),
        None => Ok(Action::Plain(Next::pushed(0))),
    }
}

/// `task:abandon()`: closes the connection of the request that was being handled, after its task has ended early.
/// Returns the number of the request, or nil.
fn abandon(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let task = call.object_mut::<ServingTask>(1)?;
    let id = task.id.take();
    if let Some(id) = id {
        task.machine.server.borrow_mut().abandon(id);
    }
    Ok(id.map(|id| id.number() as i64))
}
