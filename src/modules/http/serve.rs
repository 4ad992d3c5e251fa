//! `http.serve`: takes work from a server, calls the handlers, and passes their results to the server. If a handler
//! returns a body and has set only the status, the fields and the media type, `serve` sends the response; otherwise
//! lualib/lio/web/dispatch.lua completes it.

use super::callbacks::{self, at};
use super::html::{self, Html};
use super::machine::{Machine, ServerObject};
use super::request::{self, Request};
use crate::http::router::routes::{HandlerArguments, RouteId};
use crate::http::server::{
    Body, HandlerEffect, MAX_QUEUED_BODY, MediaType, Plan, RequestEnd, RequestId, Responded, Response, ResumeReason,
    Work,
};
use crate::lua::{
    Argument, Call, Fault, Field, Function, FunctionTable, Kind, NewFromFactory, NewWith, Next, Nil, Object, Outcome,
    Pushing, Record, Stack, TailedFactory, functions, results, then,
};
use crate::modules::json;
use std::rc::Rc;

/// The number of preallocated fields of a response for Lua code: code, body, content type.
const SPARE_FIELDS: i32 = 3;

/// The number of values for which `serve` keeps room on the stack: a request, a response, a handler's results, and copies
/// of all values of `serve` while an object is created.
const ROOM: i32 = 50;

/// The state of a serving task, which handles one request after another.
pub(crate) struct Dispatcher {
    machine: Rc<Machine>,
    /// The request that is being handled.
    id: Option<RequestId>,
    /// The buffer for the text of JSON responses.
    text: Vec<u8>,
}

/// The user value that refers to the dispatcher's server.
pub(super) const SERVER: Field<Dispatcher> = Field::new(1);

impl Object for Dispatcher {
    const NAME: &'static str = "lio.http.dispatcher";
    const USER_VALUES: i32 = 1;
    const METHODS: FunctionTable = functions! { abandon };
}

/// Creates the Lua object of the request that is being handled.
impl TailedFactory for Dispatcher {
    type Product = Request;

    fn size(&self) -> usize {
        let mut server = self.machine.server.borrow_mut();
        let head = self.id.and_then(|id| server.head(id));
        head.map_or(0, |head| head.head.head_len)
    }

    fn create(&mut self, bytes: &mut [u8]) -> Option<Request> {
        let id = self.id?;
        let mut server = self.machine.server.borrow_mut();
        let route = server.route(id);
        let made = Request::copy(server.head(id)?, route, id.number(), bytes)?;
        server.take_head(id);
        Some(made)
    }
}

/// A new Lua object of the request that is being handled, with its server.
type MakeRequest = NewFromFactory<Dispatcher, 1>;

fn make_request() -> MakeRequest {
    NewFromFactory { factory: at::DISPATCHER, fields: [(request::SERVER, at::SERVER)] }
}

/// A response: a table with the request. Lua code sets the other fields.
type MakeResponse = Record<(Argument,)>;

fn make_response(request: i32) -> MakeResponse {
    Record {
        first_key: at::REQUEST_KEY,
        values: (Argument(request),),
        room: SPARE_FIELDS,
        metatable: Some(at::RESPONSE_CLASS),
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

/// `S:dispatcher()`: returns a dispatcher, for one task.
pub(super) const DISPATCHER: Function = Function::new(|call: &mut Call<'_>| {
    let machine = call.object::<ServerObject>(1)?.machine.clone();
    Ok(NewWith::new(Dispatcher { machine, id: None, text: Vec::new() }, [(SERVER, 1)]))
});

/// `http.serve(dispatcher)`: does the work of the dispatcher's server, with the server's callbacks, until no work is
/// left. Must be called in a task, because handlers can wait.
pub(crate) const SERVE: Function = Function::new(|call: &mut Call<'_>| {
    call.object::<Dispatcher>(at::DISPATCHER)?;
    call.drop_to(at::DISPATCHER);
    call.field(at::DISPATCHER, SERVER)?;
    callbacks::push(call)?;
    // A handler may use up the memory. Its request must get a response nevertheless.
    call.keep_room(ROOM)?;
    resume(call)
});

/// Continues to serve.
fn resume(call: &mut Call<'_>) -> Result<Action, Fault> {
    let (dispatcher, stack) = call.object_and_stack::<Dispatcher>(at::DISPATCHER)?;
    next_work(dispatcher, stack)
}

/// Takes the next piece of work, and returns the action for it.
fn next_work(dispatcher: &mut Dispatcher, stack: &mut Stack) -> Result<Action, Fault> {
    stack.drop_to(at::HANDLER - 1);
    let machine = &*dispatcher.machine;
    let work = machine.server.borrow_mut().next(machine.clock());
    machine.work.begin();
    match work {
        Work::Dispatch { id, plan } => {
            dispatcher.id = Some(id);
            machine.count_request();
            match plan {
                Plan::Handle { route, arguments: HandlerArguments::Nothing } => {
                    stack.element(at::HANDLERS, route.number())?;
                    Ok(Action::Plain(Next::protected(0, -1, at::CATCH, then(handled), 0)))
                }
                Plan::Handle { route, arguments } => handle(stack, route, arguments),
                Plan::Choose { route } => choose(stack, route),
            }
        }
        Work::Resume { id, reason } => notify(stack, Some((id, reason))),
        Work::ConnectionClosed => notify(stack, None),
        Work::Idle => {
            dispatcher.id = None;
            Ok(Action::Plain(Next::pushed(0)))
        }
    }
}

/// Calls a handler that takes the request.
fn handle(stack: &mut Stack, route: RouteId, arguments: HandlerArguments) -> Result<Action, Fault> {
    let handler = stack.element(at::HANDLERS, route.number())?;
    let (request, response) = (at::REQUEST, at::RESPONSE);
    Ok(match arguments {
        HandlerArguments::Both => Action::Two(Next::protected(2, -1, at::CATCH, then(handled), 0).pushing((
            make_request(),
            make_response(request),
            Argument(handler),
            Argument(request),
            Argument(response),
        ))),
        _ => Action::One(Next::protected(1, -1, at::CATCH, then(handled), 0).pushing((
            make_request(),
            Nil,
            Argument(handler),
            Argument(request),
        ))),
    })
}

/// Calls Lua code to choose a handler.
fn choose(stack: &mut Stack, route: Option<RouteId>) -> Result<Action, Fault> {
    stack.push(Nil)?;
    Ok(Action::Choose(Next::call(4, then(chosen), 0).pushing((
        make_request(),
        make_response(at::REQUEST),
        Argument(at::CHOOSE_HANDLER),
        Argument(at::APP_SERVER),
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
    Ok(Next::protected(2, -1, at::CATCH, then(handled_chosen), 0))
}

/// Calls Lua code to resume a task that waits on a request, or a task that waits for a connection to close.
#[cold]
fn notify(stack: &mut Stack, resumed: Option<(RequestId, ResumeReason)>) -> Result<Action, Fault> {
    stack.push(Argument(at::NOTIFY))?;
    stack.push(Argument(at::APP_SERVER))?;
    let mut arguments = 1;
    if let Some((id, reason)) = resumed {
        stack.push(id.number() as i64)?;
        stack.push(reason as i64)?;
        arguments = 3;
    }
    Ok(Action::Plain(Next::call(arguments, then(|call, _| resume(call)), 0)))
}

/// Continues after a handler of a route has returned or raised an error.
fn handled(call: &mut Call<'_>, outcome: Outcome) -> Result<Action, Fault> {
    let (dispatcher, stack) = call.object_and_stack::<Dispatcher>(at::DISPATCHER)?;
    let Some(id) = dispatcher.id else {
        return Ok(Action::Plain(Next::pushed(0)));
    };
    if outcome.ok {
        // The time of a C function at the end of the handler must not end the code that responds.
        dispatcher.machine.work.begin();
    }
    if outcome.ok && respond(dispatcher, stack, id, outcome.first) {
        return end_request(dispatcher, stack, id, RequestEnd::Complete);
    }
    if outcome.ok && respond_with_html(call, id, outcome.first)? {
        let (dispatcher, stack) = call.object_and_stack::<Dispatcher>(at::DISPATCHER)?;
        return end_request(dispatcher, stack, id, RequestEnd::Complete);
    }
    complete(call, id, outcome)
}

/// Continues after a chosen handler.
fn handled_chosen(call: &mut Call<'_>, outcome: Outcome) -> Result<Action, Fault> {
    let dispatcher = call.object::<Dispatcher>(at::DISPATCHER)?;
    if outcome.ok {
        dispatcher.machine.work.begin();
    }
    match dispatcher.id {
        Some(id) => complete(call, id, outcome),
        None => Ok(Action::Plain(Next::pushed(0))),
    }
}

/// Ends the request and takes the next piece of work.
#[inline]
fn end_request(
    dispatcher: &mut Dispatcher, stack: &mut Stack, id: RequestId, end: RequestEnd,
) -> Result<Action, Fault> {
    dispatcher.machine.server.borrow_mut().end(id, end);
    next_work(dispatcher, stack)
}

/// Responds with the values that a handler has returned, from `first` on. Returns whether the request is complete.
#[inline]
fn respond(dispatcher: &mut Dispatcher, stack: &mut Stack, id: RequestId, first: i32) -> bool {
    let mut server = dispatcher.machine.server.borrow_mut();
    let Some(effect) = server.effect(id) else {
        // A served folder may have queued the whole response.
        return server.is_whole(id);
    };
    if effect == HandlerEffect::NeedsLua || stack.count() > first {
        return false;
    }
    let (status, untyped) = match effect {
        HandlerEffect::None => (200, false),
        _ => match status_of_response(stack) {
            Some(found) => found,
            None => return false,
        },
    };
    let text = &mut dispatcher.text;
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
    let done = server.respond(id, response, dispatcher.machine.clock()) == Responded::Done;
    text.shrink_to(1 << 16);
    done
}

/// Responds with the result of `http.html` at `first`, if it is the only value that a handler has returned. Returns
/// whether the request is complete.
#[inline(never)]
fn respond_with_html(call: &mut Call<'_>, id: RequestId, first: i32) -> Result<bool, Fault> {
    if call.count() > first || call.as_object::<Html>(first).is_none() {
        return Ok(false);
    }
    let machine = call.object::<Dispatcher>(at::DISPATCHER)?.machine.clone();
    let effect = machine.server.borrow_mut().effect(id);
    let status = match effect {
        Some(HandlerEffect::None) => Some(200),
        Some(HandlerEffect::Fields) => status_of_response(call).map(|(status, _)| status),
        _ => None,
    };
    let Some(status) = status else { return Ok(false) };
    let text = call.field(first, html::TEXT)?;
    let responded = call.string(text).filter(|text| text.len() <= MAX_QUEUED_BODY).map(|text| {
        let response = Response { status, media_type: MediaType::Given(html::MEDIA_TYPE), body: Body::Bytes(text) };
        machine.server.borrow_mut().respond(id, response, machine.clock()) == Responded::Done
    });
    call.drop_to(first);
    Ok(responded.unwrap_or(false))
}

/// Returns the status of the response, and whether its body is sent without a media type; `None` for an invalid
/// status.
fn status_of_response(stack: &mut Stack) -> Option<(u16, bool)> {
    let code = stack.get(at::RESPONSE, at::CODE_KEY).ok()?;
    let status = match stack.as_integer(code) {
        Some(status @ 200..=599) => status as u16,
        None if stack.is_none(code) => 200,
        _ => {
            stack.drop_to(code - 1);
            return None;
        }
    };
    let kind = stack.get(at::RESPONSE, at::CONTENT_TYPE_KEY).ok()?;
    let untyped = stack.kind(kind) == Kind::Boolean;
    stack.drop_to(code - 1);
    Some((status, untyped))
}

/// Calls Lua code to complete the request with the results of its handler, or with its error.
fn complete(call: &mut Call<'_>, id: RequestId, outcome: Outcome) -> Result<Action, Fault> {
    let (function, values) = if outcome.ok { (at::COMPLETE, 3) } else { (at::FAIL, 1) };
    let first = outcome.first;
    call.drop_to(first + values - 1);
    while call.count() < first + values - 1 {
        call.push(Nil)?;
    }
    let (mut request, mut response) = (at::REQUEST, at::RESPONSE);
    if first <= at::RESPONSE {
        request = call.create(make_request())?;
        if call.is_none(request) {
            // The request has ended in the meantime.
            let (dispatcher, stack) = call.object_and_stack::<Dispatcher>(at::DISPATCHER)?;
            return end_request(dispatcher, stack, id, RequestEnd::Cut);
        }
        if outcome.ok {
            // Only Lua code can complete the response, for example because it is long. Later requests of this route
            // will need a request object as well.
            let machine = &call.object::<Dispatcher>(at::DISPATCHER)?.machine;
            machine.server.borrow_mut().needs_request(id);
        }
    }
    if first <= at::RESPONSE || call.is_none(response) {
        response = call.create(make_response(request))?;
    }
    for index in [function, response] {
        call.push(Argument(index))?;
    }
    for index in first..first + values {
        call.push(Argument(index))?;
    }
    Ok(Action::Plain(Next::call(1 + values, then(completed), 0)))
}

fn completed(call: &mut Call<'_>, outcome: Outcome) -> Result<Action, Fault> {
    let end = if call.is_true(outcome.first) { RequestEnd::Complete } else { RequestEnd::Cut };
    let (dispatcher, stack) = call.object_and_stack::<Dispatcher>(at::DISPATCHER)?;
    match dispatcher.id {
        Some(id) => end_request(dispatcher, stack, id, end),
        None => Ok(Action::Plain(Next::pushed(0))),
    }
}

/// `dispatcher:abandon()`: closes the connection of the request that was being handled, after the dispatcher's task has
/// ended early. Returns the number of the request, or nil.
fn abandon(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let dispatcher = call.object_mut::<Dispatcher>(1)?;
    let id = dispatcher.id.take();
    if let Some(id) = id {
        dispatcher.machine.server.borrow_mut().abandon(id);
    }
    Ok(id.map(|id| id.number() as i64))
}
