---@meta _
-- The middleware for sessions, users, limits and CORS in the definitions of `lio.webserver`. docs/build.lua generates
-- docs/api/lio.webserver.middleware.md from them.

---Middleware of the library: sessions, users, limits of the rate of requests, ids of requests, and CORS.

---@class lio.webserver
local web = {}

---@class lio.WebCorsOptions
---@field origins string|string[]|fun(origin: string, req: lio.Request): boolean? required; a host may begin with `*.`
---@field methods? string[] default `{ "GET", "HEAD", "PUT", "PATCH", "POST", "DELETE" }`
---@field headers? "*"|string[] fields that requests may have; `"*"`: all; default `{ "Content-Type" }`
---@field expose? "*"|string[] fields of responses that pages can read, besides those that they always can read
---@field credentials? boolean whether cookies and `Authorization` are sent; not with the origin `"*"`; default `false`
---@field max_age? integer seconds for which a browser caches the answer to a preflight; default: the browser's default

---Creates middleware that allows pages of other origins to use the app (CORS). It answers preflights itself. Raises for
---options that browsers refuse.
---@param options lio.WebCorsOptions
---@return lio.Handler middleware
function web.cors(options) end

---@class lio.WebHttpsRedirectOptions
---@field port? integer port of the HTTPS server, 1 to 65535; default `443`
---@field status? 301|302|303|307|308 default: 301 for GET and HEAD, 308 for other methods
---@field hosts? string[] hosts of this server, such as `"*.example.com"`; default: any valid `Host`

---Creates middleware that redirects plain HTTP requests to the same path and query over HTTPS. A request without a
---valid host gets 400, and a request for a host that is not in `hosts` 421.
---@param options? lio.WebHttpsRedirectOptions
---@return lio.Handler middleware
function web.https_redirect(options) end

---@class lio.WebHstsOptions
---@field max_age? integer seconds for which a browser uses only HTTPS, 0 or more; default `31536000`, a year
---@field include_subdomains? boolean whether this applies to all hosts below the host; default false
---@field preload? boolean whether browsers may list the host; needs a year and `include_subdomains`; default false

---Creates middleware that makes browsers use only HTTPS for the host (RFC 6797): it sets `Strict-Transport-Security` in
---responses over TLS.
---@param options? lio.WebHstsOptions
---@return lio.Handler middleware
function web.hsts(options) end

---@class lio.WebRequestIdOptions
---@field header? string default `"X-Request-Id"`
---@field trust? boolean|fun(req: lio.Request): any whether the id of the client is used; default `false`
---@field generate? fun(req: lio.Request): string returns a new id; default: a random UUID

---Creates middleware that sets `req.id` and a field of the response. `web.log` logs the id. An id has 1 to 128
---characters out of letters, digits and `-_.:+/=@~`; another id of a client is replaced.
---@param options? lio.WebRequestIdOptions
---@return lio.Handler middleware
function web.request_id(options) end

---@class lio.WebBasicAuthOptions
---@field users? table<string, string> passwords, or hashes of `crypto.password_hash`, by name
---@field check? fun(name: string, password: string, req: lio.Request): any, string? replaces `users`
---@field realm? string the text that the browser shows; default `"Restricted"`

---Creates middleware that asks for a name and a password (RFC 7617). It sets `req.user` to the name, or to a result of
---`check` other than true. If `check` returns nil and a message, the response is 503. Use it only over TLS: the client
---sends the password with every request.
---@param options lio.WebBasicAuthOptions
---@return lio.Handler middleware
function web.basic_auth(options) end

---@class lio.WebRateLimitOptions
---@field rate integer required; number of requests that a client may send in `per` seconds
---@field per? number seconds; default `60`
---@field burst? integer number of requests that a client may send at once; default: `rate`
---@field key? fun(req: lio.Request): string|number|boolean? the client; nil: no limit; default: address or IPv6 network
---@field clients? integer number of clients that are counted at the same time; default `10000`
---@field headers? boolean whether responses have the fields `RateLimit-…`; default `true`
---@field on_limit? fun(req: lio.Request, res: lio.Response, seconds: integer): any responds to a refused request

---Creates middleware that refuses requests of clients that send too many: status 429, with `Retry-After`. Each worker
---counts for itself.
---@param options lio.WebRateLimitOptions
---@return lio.RateLimit limit
function web.rate_limit(options) end

---A limit of the rate of requests: middleware with methods.
---@class lio.RateLimit
---@overload fun(req: lio.Request, res: lio.Response, next: fun())
local RateLimit = {}

---Counts a request of a client.
---@param key string|number|boolean as `options.key` returns it
---@return boolean is_allowed
---@return integer remaining number of requests that the client may still send at once
---@return table bucket internal
function RateLimit:take(key) end

---Forgets the requests of a client.
---@param key string|number|boolean as `options.key` returns it
function RateLimit:reset(key) end

---@class lio.WebSessionsOptions
---@field secret? string at least 32 bytes that only the server knows; required without `secrets` and `store`
---@field secrets? string[] secrets of which the first signs new cookies, and the others are still accepted
---@field name? string name of the cookie; default `"session"`
---@field encrypted? boolean whether the client cannot read the cookie's data; default `false`
---@field max_age? integer seconds after its last change at which a session expires; default `1209600`, two weeks
---@field rolling? boolean whether a request that does not change a session extends it too; default `false`
---@field same_site? "strict"|"lax"|"none" default `"lax"`
---@field secure? boolean default: whether the request came over TLS (`req.is_tls`)
---@field http_only? boolean whether scripts cannot read the cookie; default `true`
---@field path? string default `"/"`
---@field domain? string default: only the host of the request
---@field store? lio.SessionStore|table keeps the data on the server; default: the data is in the cookie

---Creates middleware that keeps data for each client between its requests: `req.session`. The session is saved just
---before the head of the response is sent, if it has changed and the handler has not raised an error. A cookie of more
---than 4096 bytes is an error.
---@param options lio.WebSessionsOptions
---@return lio.Handler middleware
function web.sessions(options) end

---A session: a table for data that JSON can represent, with methods. When the head of the response has been sent, it is
---read-only: to set a field raises.
---@class lio.Session
---@field [string] any
local Session = {}

---Returns the id of the session in its store.
---@return string? id nil without a store, and before the first save
function Session:id() end

---Removes the data and the cookie.
function Session:destroy() end

---Gives the session a new id in its store, so that the previous id is no longer valid. Call it when a user logs in.
function Session:regenerate() end

---Keeps a value until it is read; without a value, reads and removes it.
---@param name string
---@param ... any the value
---@return any value nil if a value was given, or if there is none
function Session:flash(name, ...) end

---@class lio.CsrfOptions
---@field field? string the field of a form that contains the token; default `"_csrf"`
---@field header? string the header field that contains the token; default `"X-CSRF-Token"`

---Creates middleware against forged requests; `web.sessions` must come before it. A request with a method other than
---GET, HEAD, OPTIONS and TRACE gets 403 unless it contains the token of its session. `req.csrf_token()` returns the
---token for a form.
---@param options? lio.CsrfOptions
---@return lio.Handler middleware
function web.csrf(options) end

---Where sessions are kept. A method that fails returns nil and a message; the response is then an error. The methods
---may wait.
---@class lio.SessionStore
---@field load fun(self: any, id: string): string?, string? returns the data; nil if there is none, or it has expired
---@field save fun(self: any, id: string, data: string, ttl: integer): any, string? keeps the data for `ttl` seconds
---@field update? fun(self: any, id: string, data: string, ttl: integer): any, string? `save`; false for an unknown id
---@field destroy fun(self: any, id: string): any, string? forgets the data

---@class lio.WebMemoryStoreOptions
---@field sessions? integer maximum number of sessions; default `100000`

---Creates a store in the memory of this VM. If it is full, it forgets the session that was not used for the longest
---time. Each worker has its own store.
---@param options? lio.WebMemoryStoreOptions
---@return lio.MemoryStore store
function web.memory_store(options) end

---Sessions in the memory of this VM.
---@class lio.MemoryStore
local MemoryStore = {}

---Returns the data of a session.
---@param id string
---@return string? data nil if there is none, or it has expired
function MemoryStore:load(id) end

---Keeps the data of a session.
---@param id string
---@param data string
---@param ttl number seconds
---@return true
function MemoryStore:save(id, data, ttl) end

---Keeps the data of a session, if the session exists.
---@param id string
---@param data string
---@param ttl number seconds
---@return boolean exists
function MemoryStore:update(id, data, ttl) end

---Forgets a session.
---@param id string
---@return true
function MemoryStore:destroy(id) end
