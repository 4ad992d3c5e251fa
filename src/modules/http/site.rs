//! `http.site`: a served folder. `respond` sends small files. lualib/lio/web/static.lua handles directories, missing
//! files, several ranges, long files, and requests with middleware.

use super::files::{Copied, copied};
use super::machine::{Machine, ServerObject};
use super::request::{self, Request, SERVER};
use crate::codec::uri;
use crate::event::clock::monotonic_nanos;
use crate::file::OpenFile;
use crate::file::folder::Folder;
use crate::http::files::{Choice, Options, Representation, Site, accepted};
use crate::http::server::{Body, HandlerEffect, MediaType, RequestId, Responded, Response};
use crate::lua::{Call, Either, Fault, Field, Function, FunctionTable, Maybe, New, NewWith, Object, functions};
use crate::modules::file::refused;
use std::rc::Rc;

/// The route parameter that contains the path below the prefix.
const REST: &str = "rest";

impl Object for Site {
    const NAME: &'static str = "lio.http.site";
    const USER_VALUES: i32 = 1;
    const METHODS: FunctionTable = functions! { respond, open_compressed_copy };
}

const FOLDER: Field<Site> = Field::new(1);

/// `http.site(folder, options)`: returns a site with these options of `app:static`: `hidden`, `precompressed`,
/// `cache_control`, `cache` and `cache_file`.
pub(crate) const NEW: Function = Function::new(|call: &mut Call<'_>| {
    call.object::<Folder>(1)?;
    let hidden = call.raw_field(2, "hidden")?;
    let precompressed = call.raw_field(2, "precompressed")?;
    let cache_control = call.raw_field(2, "cache_control")?;
    let cache = call.raw_field(2, "cache")?;
    let cache_file = call.raw_field(2, "cache_file")?;
    let bytes = |index| call.as_integer(index).and_then(|size| usize::try_from(size).ok());
    let site = Site::new(Options {
        hidden: call.is_true(hidden),
        precompressed: call.is_true(precompressed),
        cache_control: call.string(cache_control).map(Box::from),
        cache: bytes(cache).unwrap_or(0),
        cache_file: bytes(cache_file).unwrap_or(0),
    });
    Ok::<_, Fault>(NewWith::new(site, [(FOLDER, 1)]))
});

/// The result for a request: true if the response is queued; an opened file, with which Lua code responds; or nothing
/// if Lua code must handle the request completely.
type Answered = Maybe<Either<bool, New<OpenFile>>>;

/// The server, the request, and the requested path.
type SiteRequest = (Rc<Machine>, RequestId, Vec<u8>);

fn opened(file: OpenFile) -> Answered {
    Maybe(Some(Either::Other(New::of(file))))
}

/// `site:respond(req)`: responds to a request. Returns true if the response is queued; an opened file or directory,
/// with which the caller responds; `nil, message, code` if it cannot be opened; or nil if the caller must handle the
/// request completely.
fn respond(call: &mut Call<'_>) -> Result<Answered, Fault> {
    let Some((machine, id, path)) = site_request(call)? else {
        return Ok(Maybe(None));
    };
    let clock = machine.clock();
    let accepted = accepted(request::head(call, 2)?);
    let folder = call.field(1, FOLDER)?;
    let (site, folder) = call.object_pair::<Site, Folder>(1, folder)?;
    let found = match site.find(folder, path, accepted, clock) {
        Ok(found) => found,
        Err(Ok(directory)) => return Ok(opened(directory)),
        Err(Err(refusal)) => return Err(refused(refusal)),
    };
    let validators = found.validators(clock.unix);
    let choice = validators.choose(request::head(call, 2)?, found.metadata.size);
    let Some(content) = call.object_mut::<Site>(1)?.load(&found, &choice, clock) else {
        return Ok(leave_to_lua(found));
    };
    let mut server = machine.server.borrow_mut();
    let Some(draft) = server.draft(id) else {
        return Ok(Maybe(None));
    };
    let mut can_be_sent = true;
    call.object::<Site>(1)?.each_field(&found, &validators, &choice, |name, value| {
        can_be_sent &= draft.add(name, value).is_ok();
    });
    if !can_be_sent {
        draft.clear();
        return Ok(leave_to_lua(found));
    }
    let body = if choice == Choice::NotModified { Body::None } else { Body::Shared(content) };
    let response = Response { status: choice.status(), media_type: MediaType::None, body };
    Ok(Maybe(Some(Either::One(server.respond(id, response, clock) == Responded::Done))))
}

/// Leaves the response to Lua code.
fn leave_to_lua(found: Representation) -> Answered {
    found.into_original().map_or(Maybe(None), opened)
}

/// Returns the path in the site at argument 1 that the request at argument 2 requests; `None` if Lua code must respond,
/// because there is middleware, or because a handler has read the request or changed the response.
fn site_request(call: &mut Call<'_>) -> Result<Option<SiteRequest>, Fault> {
    let has_stored = request::has_stored_values(call, 2)?;
    let server = call.field(2, SERVER)?;
    let site = call.object::<Site>(1)?;
    let (request, bytes) = call.tail::<Request>(2)?;
    let machine = match call.as_object::<ServerObject>(server) {
        Some(handle) if !has_stored => handle.machine.clone(),
        _ => return Ok(None),
    };
    let path = {
        let mut server = machine.server.borrow_mut();
        let id = RequestId::from_number(request.id);
        let plain = id.filter(|id| server.effect(*id) == Some(HandlerEffect::None));
        let routes = server.routes();
        let mut scratch = Vec::new();
        let path = uri::normal_path(request.read(bytes).route_path(), &mut scratch);
        let route = request.route().filter(|_| !routes.has_middleware());
        let rest = path.zip(route).and_then(|(path, route)| routes.value_of(path, route, REST));
        plain.zip(rest.and_then(|rest| site.path(rest)))
    };
    Ok(path.map(|(id, path)| (machine, id, path)))
}

/// `site:open_compressed_copy(path, file, req)`: like `http.open_compressed_copy`. The site caches for a short time
/// that a copy is missing.
fn open_compressed_copy(call: &mut Call<'_>) -> Result<Copied, Fault> {
    let path = call.bytes(2)?.to_vec();
    let metadata = *call.object::<OpenFile>(3)?.metadata();
    let accepted = accepted(request::head(call, 4)?);
    let folder = call.field(1, FOLDER)?;
    let (site, folder) = call.object_pair::<Site, Folder>(1, folder)?;
    let found = site.open_copy(folder, &path, &metadata, accepted, monotonic_nanos());
    Ok(copied(found))
}
