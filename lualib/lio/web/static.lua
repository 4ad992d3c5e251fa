-- `app:static(prefix, dir [, opts])`: serves the files of a folder. Called by webserver.lua. Invariant: a path that
-- leaves the folder, or has a name that begins with a dot, gets the same response as a path that does not exist.
--
-- `http.site`, the native part, answers requests for small files. This file handles the other requests.

local file = require "lio.file"
local http = require "lio.http"
local files = require "lio.web.file"
local misuse = require "lio.misuse"
local options = require "lio.options"

local native <const> = http.request
local for_status <const> = require("lio.web.error_page").for_status

-- The defaults of `cache` and `cache_file`: the maximum total size of the files in memory, and the maximum size of one
-- of them, in bytes.
local CACHE <const>, CACHE_FILE <const> = 8 * 1024 * 1024, 64 * 1024

local OPTIONS <const> = {
  list = options.boolean, index = options.string, hidden = options.boolean, max_age = files.max_age,
  immutable = options.boolean, cache_control = options.string, precompressed = options.boolean,
  cache = options.either(options.is_false, options.integer(0)),
  cache_file = options.integer(0),
}

local function not_found(site, req, res)
  local handler = site.app.not_found_handler
  if handler then return handler(req, res) end
  native.drop_body_fields(res.request)
  return for_status(req, 404)
end

-- Responds if a file could not be opened.
local function refuse(site, req, res, message, code)
  local status = files.STATUS[code]
  if not status then error("static: " .. message, 0) end
  if status == 404 then return not_found(site, req, res) end
  if status == 503 then files.report_exhausted(req, res, message) end
  return for_status(req, status)
end

local function is_hidden(path)
  return path:byte(1) == 46 or path:find("/.", 1, true) ~= nil
end

-- Returns the location of a directory that was requested without a slash at the end: a relative reference, because the
-- host, and any prefix that a proxy removes, are unknown. It begins with a dot, so that no part of the path is read as
-- a host.
local function with_slash(req)
  local name = req.raw_path:match "^.*/(.*)$" or req.raw_path
  local query = req.raw_query
  return "./" .. name .. "/" .. (query and "?" .. query or "")
end

-- A folder that is served. Fields: `app`, `folder`, `native_site` (the `http.site`), and the options.
local Site = {}
Site.__index = Site

-- Responds with a regular file.
function Site:send(res, path, f)
  local kind, compressible = http.media_type(path)
  local varies = compressible and self.precompressed and not res.code
  if varies then
    local copy, coding = self.native_site:open_compressed_copy(path, f, res.request)
    if copy then
      f:close()
      files.add_vary(res)
      return files.respond_with(res, copy, kind, coding, self.cache)
    end
  end
  if varies then files.add_vary(res) end
  return files.respond_with(res, f, kind, nil, self.cache)
end

-- Responds for a directory, whose path ends in a slash or is empty: with the index file, a listing, or `not_found`.
function Site:respond_directory(req, res, path)
  local name = path .. self.index
  local f, message, code = self.folder:open(name)
  if f and f:kind() == "file" then
    self:send(res, name, f)
    return res
  end
  if f then
    f:close()
  elseif (files.STATUS[code] or 503) == 503 then
    return refuse(self, req, res, message, code)
  end
  if not self.list then return not_found(self, req, res) end
  local entries, more
  entries, more, code = self.folder:list(path)
  if not entries then
    if files.STATUS[code] == 503 then return refuse(self, req, res, more, code) end
    return not_found(self, req, res)
  end
  local listing = require("lio.web.directory_listing")
  res:header("Content-Type", "text/html; charset=utf-8")
  return res:send(listing(req.path, path, entries, more, self.hidden))
end

-- Responds to a request that `http.site` has not answered. `f` is the file that `http.site` has opened, or nil;
-- `message` and `code` are its error, or nil.
function Site:handle(req, res, f, message, code)
  local path = req.params.rest or ""
  if not f and not message then
    if is_hidden(path) and not self.hidden then return not_found(self, req, res) end
    local is_slashed = path == "" or path:byte(-1) == 47
    if is_slashed and req.raw_path:byte(-1) == 47 then return self:respond_directory(req, res, path) end
    f, message, code = self.folder:open(path)
  end
  if not f then return refuse(self, req, res, message, code) end
  if f:kind() == "file" then
    self:send(res, path, f)
    return res
  end
  f:close()
  return res:redirect(with_slash(req), 301)
end

-- Adds the routes to the app. Returns the app. Raises if the folder cannot be opened.
return function(app, prefix, dir, opts)
  misuse.check("static", 1, prefix, "string")
  if prefix:sub(1, 1) ~= "/" or prefix:find "[:*<>]" then
    misuse.bad("static", 1, "the prefix must be a path that begins with '/'")
  end
  if type(dir) ~= "string" then misuse.argument("static", 2, "path of a folder", dir) end
  opts = options.check("app:static", 3, opts, OPTIONS)
  local folder, message = file.folder(dir)
  if not folder then misuse.raise(("app:static: cannot serve '%s': %s"):format(dir, message:gsub("^open: ", ""))) end
  local cache, precompressed = files.cache_control(opts), opts.precompressed ~= false
  local native_site = http.site(folder, {
    hidden = opts.hidden,
    precompressed = precompressed,
    cache_control = cache,
    cache = opts.cache == nil and CACHE or opts.cache or 0,
    cache_file = opts.cache_file or CACHE_FILE,
  })
  local site = setmetatable({
    app = app,
    folder = folder,
    native_site = native_site,
    index = opts.index or "index.html",
    list = opts.list or false,
    hidden = opts.hidden or false,
    precompressed = precompressed,
    cache = cache,
  }, Site)
  prefix = prefix:gsub("/+$", "")
  local respond <const> = native_site.respond
  local function handle(req, res)
    local done, why, code = respond(native_site, req)
    if done == true then return res end
    return site:handle(req, res, done, why, code)
  end
  if prefix ~= "" then app:add_entry("GET", prefix, handle, "static") end
  app:add_entry("GET", prefix .. "/", handle, "static")
  return app:add_entry("GET", prefix .. "/*rest", handle, "static")
end
