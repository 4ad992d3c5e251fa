//! The routes of an app, and the properties of each route that the server needs.

use super::{Candidate, Route, Router};
use crate::codec::http1::head::Method;
use std::num::NonZeroU32;

/// Identifies a route by its number, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RouteId(NonZeroU32);

impl RouteId {
    /// Returns the identifier with this number, if the number is valid.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        NonZeroU32::new(number).map(RouteId)
    }

    pub(crate) fn number(self) -> i64 {
        self.0.get().into()
    }

    /// Returns the identifier of the route that has the number `index` in the router.
    fn of(index: usize) -> Option<Self> {
        let number = u32::try_from(index + 1).ok()?;
        NonZeroU32::new(number).map(RouteId)
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The arguments of a handler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandlerArguments {
    Nothing,
    Request,
    /// The request and the response.
    Both,
}

#[derive(Default)]
pub(crate) struct Routes {
    router: Router,
    /// The arguments of each route's handler, up to the last route whose arguments were set.
    arguments: Vec<HandlerArguments>,
    has_middleware: bool,
}

impl Routes {
    /// Adds a route. An empty `method` means any method.
    pub(crate) fn add(&mut self, method: &[u8], pattern: &str) -> Result<RouteId, String> {
        let index = self.router.add(method, pattern)?;
        RouteId::of(index).ok_or_else(|| "too many routes".to_string())
    }

    /// Returns the id of the route that [`Routes::add`] added for this pattern and method, or `None` if there is none.
    pub(crate) fn id_of(&self, method: &[u8], pattern: &str) -> Result<Option<RouteId>, String> {
        Ok(self.router.number_of(method, pattern)?.and_then(RouteId::of))
    }

    /// Returns the route for a request, if it can be determined without testing constraints. A route for the request's
    /// method takes precedence over a route for any method; HEAD falls back to GET.
    #[inline]
    pub(crate) fn find(&self, method: Method, name: &[u8], path: &[u8]) -> Option<RouteId> {
        let candidates = self.router.candidates(path)?;
        let own = candidates.iter().find(|c| c.is_for(method, name));
        let chosen = match (own, method) {
            (None, Method::Head) => candidates.iter().find(|c| c.method_id == Method::Get),
            (own, _) => own,
        };
        // A route for any method does not match CONNECT, which requests a tunnel.
        let any = |c: &&Candidate| c.method.is_empty() && method != Method::Connect;
        let candidate = chosen.or_else(|| candidates.iter().find(any))?;
        if candidate.has_constraints { None } else { RouteId::of(candidate.route) }
    }

    /// Returns the arguments for the handler of a route.
    pub(crate) fn arguments(&self, id: RouteId) -> HandlerArguments {
        self.arguments.get(id.index()).copied().unwrap_or(HandlerArguments::Both)
    }

    /// Sets the arguments for the handler of a route.
    pub(crate) fn set_arguments(&mut self, id: RouteId, arguments: HandlerArguments) {
        let index = id.index();
        if self.arguments.len() <= index {
            self.arguments.resize(index + 1, HandlerArguments::Both);
        }
        self.arguments[index] = arguments;
    }

    /// From now on, the server creates a request object for this route even if the handler does not take one, because
    /// code that runs after the handler needs it.
    pub(crate) fn needs_request(&mut self, id: RouteId) {
        if self.arguments(id) == HandlerArguments::Nothing {
            self.set_arguments(id, HandlerArguments::Request);
        }
    }

    /// Records that there is middleware, so that the route alone does not determine the handler.
    pub(crate) fn add_middleware(&mut self) {
        self.has_middleware = true;
    }

    pub(crate) fn has_middleware(&self) -> bool {
        self.has_middleware
    }

    /// Calls `read` with the values of a route's parameters in `path`, in order, and returns its result; `None` if the
    /// route does not match.
    pub(crate) fn with_values<'p, T>(
        &self, path: &'p [u8], id: RouteId, read: impl FnOnce(&[&'p [u8]]) -> T,
    ) -> Option<T> {
        let (mut read, mut result) = (Some(read), None);
        self.router.each(path, |candidates, values| {
            let matches = candidates.iter().any(|c| c.route == id.index());
            if matches {
                result = read.take().map(|read| read(values));
            }
            matches
        });
        result
    }

    /// Returns the value of the route's parameter `name` in `path`.
    pub(crate) fn value_of<'p>(&self, path: &'p [u8], id: RouteId, name: &str) -> Option<&'p [u8]> {
        self.with_values(path, id, |values| {
            let mut named = values.iter().enumerate().rev();
            let found = named.find(|(index, _)| self.name_of(id, *index) == Some(name));
            found.map(|(_, value)| *value)
        })?
    }

    /// Returns the method and the pattern of a route.
    pub(crate) fn route(&self, id: RouteId) -> Option<&Route> {
        self.router.route(id.index())
    }

    /// Returns the name of a route's parameter.
    pub(crate) fn name_of(&self, id: RouteId, index: usize) -> Option<&str> {
        self.route(id)?.pattern.names.get(index).map(String::as_str)
    }

    /// Appends the numbers of all matching routes to `out`, the most specific first, with a 0 after the routes of each
    /// shape.
    pub(crate) fn all(&self, path: &[u8], out: &mut Vec<i64>) {
        self.router.each(path, |candidates, _| {
            out.extend(candidates.iter().map(|c| c.route as i64 + 1));
            out.push(0);
            false
        });
    }
}
