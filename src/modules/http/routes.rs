//! `http.routes()`: the routes of an app. Ids are numbers, counted from 1.

use crate::http::router::routes::{HandlerArguments, RouteId, Routes};
use crate::lua::object::Object;
use crate::lua::{Call, Fault, Function, FunctionTable, New, Value, functions};
use std::cell::RefCell;
use std::rc::Rc;

/// The routes of an app, which its servers share.
#[derive(Default)]
pub(crate) struct AppRoutes(pub(crate) Rc<RefCell<Routes>>);

impl Object for AppRoutes {
    const NAME: &'static str = "lio.http.routes";
    const METHODS: FunctionTable =
        functions! { add, id, method, constraints, set_argument_count, add_middleware: ADD_MIDDLEWARE };
}

/// `http.routes()`: returns an empty table of routes.
pub(crate) const NEW: Function = Function::new(|_: &mut Call<'_>| Ok::<_, Fault>(New::of(AppRoutes::default())));

/// `routes:add(method, pattern)`: adds a route and returns its id. If `method` is `""`, the route matches any method.
/// Raises if the pattern is malformed, or if a route with this method and pattern already exists.
fn add(call: &mut Call<'_>) -> Result<i64, Fault> {
    let routes = call.object::<AppRoutes>(1)?;
    let (method, pattern) = (call.bytes(2)?, call.utf8(3)?);
    let added = routes.0.borrow_mut().add(method, pattern);
    added.map(RouteId::number).map_err(Fault::message)
}

/// `routes:id(method, pattern)`: returns the id of the route with this method and pattern, or nil if there is none. The
/// names of parameters are not compared. Raises if the pattern is malformed.
fn id(call: &mut Call<'_>) -> Result<Option<i64>, Fault> {
    let routes = call.object::<AppRoutes>(1)?;
    let (method, pattern) = (call.bytes(2)?, call.utf8(3)?);
    let found = routes.0.borrow().id_of(method, pattern);
    found.map(|id| id.map(RouteId::number)).map_err(Fault::message)
}

/// Returns the routes, and the id at argument 2.
fn route<'c>(call: &'c Call<'_>) -> Result<(&'c RefCell<Routes>, RouteId), Fault> {
    let routes = &call.object::<AppRoutes>(1)?.0;
    let id = RouteId::from_number(call.integer(2)?);
    let known = id.filter(|id| routes.borrow().route(*id).is_some());
    let id = known.ok_or_else(|| Fault::argument(2, "no such route"))?;
    Ok((routes, id))
}

/// `routes:method(id)`: returns the route's method, or `""` if the route matches any method.
fn method(call: &mut Call<'_>) -> Result<Vec<u8>, Fault> {
    let (routes, id) = route(call)?;
    let routes = routes.borrow();
    Ok(routes.route(id).map_or(Vec::new(), |route| route.method.to_vec()))
}

/// `routes:constraints(id)`: returns a table that maps parameter names to Lua patterns, or nil if there are none.
fn constraints(call: &mut Call<'_>) -> Result<Option<Value>, Fault> {
    let (routes, id) = route(call)?;
    let routes = routes.borrow();
    let Some(route) = routes.route(id) else {
        return Ok(None);
    };
    let named = route.pattern.names.iter().zip(&route.pattern.constraints);
    let found: Vec<_> = named
        .filter_map(|(name, pattern)| Some((name.clone(), pattern.clone()?)))
        .map(|(name, pattern)| (name.into_bytes(), Value::String(pattern.into_bytes())))
        .collect();
    Ok((!found.is_empty()).then_some(Value::Map(found)))
}

/// `routes:set_argument_count(id, count)`: sets how many arguments the handler of this route takes: none, the request,
/// or the request and the response. Objects that the handler does not take are not created.
fn set_argument_count(call: &mut Call<'_>) -> Result<(), Fault> {
    let arguments = match call.integer_in(3, 0..=2, "count")? {
        0 => HandlerArguments::Nothing,
        1 => HandlerArguments::Request,
        _ => HandlerArguments::Both,
    };
    let (routes, id) = route(call)?;
    routes.borrow_mut().set_arguments(id, arguments);
    Ok(())
}

/// `routes:add_middleware()`: records that there is middleware, so that Lua code chooses handlers.
const ADD_MIDDLEWARE: Function = Function::method(|routes: &AppRoutes| routes.0.borrow_mut().add_middleware());
