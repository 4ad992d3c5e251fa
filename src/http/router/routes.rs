//! The routes of an app, and what a server has to know of each.

use super::{Candidate, Route, Router};
use crate::codec::http1::head::Method;
use std::num::NonZeroU32;

/// A route; they are counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RouteId(NonZeroU32);

impl RouteId {
    /// That of the route which the router knows by `index`.
    fn of(index: usize) -> Option<Self> {
        let number = u32::try_from(index + 1).ok()?;
        NonZeroU32::new(number).map(RouteId)
    }

    /// The route with this number, if that can be one.
    pub(crate) fn from_number(number: i64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        NonZeroU32::new(number).map(RouteId)
    }

    pub(crate) fn number(self) -> i64 {
        self.0.get().into()
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// What a handler is called with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Takes {
    Nothing,
    Request,
    /// The request and the response.
    Both,
}

#[derive(Default)]
pub(crate) struct Routes {
    router: Router,
    /// By route, as far as that was said.
    takes: Vec<Takes>,
    wrapped: bool,
}

impl Routes {
    /// Adds a route. `method` is empty for any.
    pub(crate) fn add(&mut self, method: &[u8], pattern: &str) -> Result<RouteId, String> {
        let index = self.router.add(method, pattern)?;
        RouteId::of(index).ok_or_else(|| "too many routes".to_string())
    }

    /// The route for a request, when that can be told without testing constraints. A method's own route comes before one
    /// for any method; HEAD falls back to GET.
    #[inline]
    pub(crate) fn find(&self, method: Method, name: &[u8], path: &[u8]) -> Option<RouteId> {
        let candidates = self.router.candidates(path)?;
        let own = candidates.iter().find(|c| c.is_for(method, name));
        let chosen = match (own, method) {
            (None, Method::Head) => candidates.iter().find(|c| c.method_id == Method::Get),
            (own, _) => own,
        };
        // Nobody means a tunnel by "any method".
        let any = |c: &&Candidate| c.method.is_empty() && method != Method::Connect;
        let candidate = chosen.or_else(|| candidates.iter().find(any))?;
        if candidate.has_constraints { None } else { RouteId::of(candidate.route) }
    }

    /// What the handler of a route is called with.
    pub(crate) fn takes(&self, id: RouteId) -> Takes {
        self.takes.get(id.index()).copied().unwrap_or(Takes::Both)
    }

    /// Says what the handler of a route is called with.
    pub(crate) fn set_takes(&mut self, id: RouteId, takes: Takes) {
        let index = id.index();
        if self.takes.len() <= index {
            self.takes.resize(index + 1, Takes::Both);
        }
        self.takes[index] = takes;
    }

    /// From now on a request is made for a route though its handler takes none: what comes behind it does.
    pub(crate) fn needs_request(&mut self, id: RouteId) {
        if self.takes(id) == Takes::Nothing {
            self.set_takes(id, Takes::Request);
        }
    }

    /// There is middleware, so that a route does not tell which handler is called.
    pub(crate) fn wrap(&mut self) {
        self.wrapped = true;
    }

    pub(crate) fn is_wrapped(&self) -> bool {
        self.wrapped
    }

    /// Gives `read` what `path` has in the place of the parameters of a route, in their order. → what it makes of them;
    /// `None` when the route does not match
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

    /// What `path` has in the place of a route's parameter; of several with the name the last.
    pub(crate) fn value_of<'p>(&self, path: &'p [u8], id: RouteId, name: &str) -> Option<&'p [u8]> {
        self.with_values(path, id, |values| {
            let mut named = values.iter().enumerate().rev();
            let found = named.find(|(index, _)| self.name_of(id, *index) == Some(name));
            found.map(|(_, value)| *value)
        })?
    }

    /// What a route was made from.
    pub(crate) fn route(&self, id: RouteId) -> Option<&Route> {
        self.router.route(id.index())
    }

    /// The name of a route's parameter.
    pub(crate) fn name_of(&self, id: RouteId, index: usize) -> Option<&str> {
        self.route(id)?.pattern.names.get(index).map(String::as_str)
    }

    /// Puts the numbers of all routes that match into `out`, the most specific first; 0 behind those of one shape.
    pub(crate) fn all(&self, path: &[u8], out: &mut Vec<i64>) {
        self.router.each(path, |candidates, _| {
            out.extend(candidates.iter().map(|c| c.route as i64 + 1));
            out.push(0);
            false
        });
    }
}
