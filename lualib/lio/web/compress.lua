-- `web.compress`: middleware that compresses response bodies for clients that accept a coding.
--
-- The middleware decides just before the head is sent (`res:on_head`) whether to compress. So it handles every kind of
-- body: a string is compressed as a whole, other bodies piece by piece (`res.encoder`). A body that already has a
-- coding, or that is a part of a file, is not changed. The coding is chosen as RFC 9110 section 12.5.3 specifies.

local compress = require "lio.compress"
local misuse = require "lio.misuse"
local options = require "lio.options"
local trim <const> = require "lio.http.trim"
local vary = require "lio.web.vary"

local ORDER <const> = { "br", "gzip", "deflate" }
local NO_BODY <const> = { [204] = true, [205] = true, [304] = true, [206] = true }

-- Compressible types in addition to `text/…`, `…+json` and `…+xml`.
local COMPRESSIBLE <const> = {
  ["application/json"] = true,
  ["application/javascript"] = true,
  ["application/xml"] = true,
  ["application/x-ndjson"] = true,
  ["application/x-javascript"] = true,
  ["application/x-www-form-urlencoded"] = true,
  ["application/wasm"] = true,
  ["application/rtf"] = true,
  ["font/ttf"] = true,
  ["font/otf"] = true,
  ["image/bmp"] = true,
  ["image/x-icon"] = true,
  ["image/vnd.microsoft.icon"] = true,
}

local function is_compressible(kind)
  return COMPRESSIBLE[kind] or kind:find "^text/" ~= nil or kind:find "%+json$" ~= nil or kind:find "%+xml$" ~= nil
end

-- Returns the quality of each coding in a value of `Accept-Encoding`, by name.
local function qualities(value)
  local found = {}
  for item in value:gmatch "[^,]+" do
    local name, rest = item:match "^%s*([^;%s]+)(.*)$"
    if name then
      local parameters = trim(rest)
      local q = parameters:match "^;%s*[qQ]%s*=%s*([%d.]+)"
      name = name:lower()
      if name == "x-gzip" then name = "gzip" end
      found[name] = q and tonumber(q) or (parameters == "" and 1 or 0)
    end
  end
  return found
end

-- Returns the coding of `order` that has the highest quality in a value of `Accept-Encoding`; if several codings have
-- that quality, the first of them. Returns nil if the client accepts none of the codings, or prefers an uncompressed
-- body.
local function choose(value, order)
  local accepted = qualities(value)
  local any = accepted["*"] or 0
  local best, best_quality = nil, 0
  for _, coding in ipairs(order) do
    local quality = accepted[coding] or any
    if quality > best_quality then best, best_quality = coding, quality end
  end
  -- `identity` counts only if the client lists it.
  if best and (accepted.identity or 0) > best_quality then return nil end
  return best
end

-- Returns `choose` with a cache, because clients send only a few different values.
local function cached_chooser(order)
  local known, count = {}, 0
  return function(value)
    if not value then return nil end
    local coding = known[value]
    if coding == nil then
      coding = choose(value, order) or false
      if count == 64 then known, count = {}, 0 end
      known[value], count = coding, count + 1
    end
    return coding or nil
  end
end

local TYPES <const> = options.rule("a list of media types, or a function", function(types)
  return type(types) == "table" or type(types) == "function"
end)

local function type_test(types)
  if types == nil then return is_compressible end
  if type(types) == "function" then return types end
  local exact, groups = {}, {}
  for _, kind in ipairs(types) do
    if type(kind) ~= "string" then options.wrong("web.compress", "types", TYPES.wanted, types) end
    local group = kind:lower():match "^([^/]+/)%*$"
    if group then groups[group] = true else exact[kind:lower()] = true end
  end
  return function(kind)
    return exact[kind] or groups[kind:match "^[^/]*/?"] or false
  end
end

local function order_of(codings)
  if codings == nil then return ORDER end
  local known = { br = true, gzip = true, deflate = true }
  for _, coding in ipairs(codings) do
    if not known[coding] then misuse.raise(("web.compress: coding '%s' is unknown"):format(tostring(coding))) end
  end
  return { table.unpack(codings) }
end

-- Returns the level of each coding, by name. Raises if a coding does not support the level.
local function levels_of(level)
  local levels = {}
  for _, coding in ipairs(ORDER) do
    local one = level
    if type(level) == "table" then one = level[coding] end
    levels[coding] = one
    local ok, message = pcall(compress.encoder, coding, one)
    if not ok then
      misuse.raise("web.compress: option 'level': " .. message:gsub("^bad argument #%d to '[^']*' ", ""))
    end
  end
  return levels
end

local OPTIONS <const> = {
  min = options.whole(0),
  types = TYPES,
  level = options.either(options.integer(0, 11), options.table),
  codings = options.table,
}

local function read_options(opts)
  return {
    min = opts.min or 1024,
    fits = type_test(opts.types),
    choose = cached_chooser(order_of(opts.codings)),
    levels = levels_of(opts.level),
  }
end

-- Reports whether the response may be compressed if the client accepts a coding.
local function is_candidate(settings, res, body)
  if NO_BODY[res.code or 200] or res:get_header "content-encoding" or res:get_header "content-range" then
    return false
  end
  local length = body and #body or math.tointeger(tonumber(res:get_header "content-length" or ""))
  if length and length < settings.min then return false end
  local control = res:get_header "cache-control"
  if control and control:lower():find("no-transform", 1, true) then return false end
  local kind = res:get_header "content-type" or res.content_type
  if kind == false then return false end
  kind = kind or "text/plain"
  return settings.fits(kind:match "^%s*([^;%s]*)":lower()) and true or false
end

-- Makes the ETag weak, because compressing the same body again can produce different bytes (RFC 9110 section 8.8.3.3).
local function weaken_etag(res)
  local etag = res:get_header "etag"
  if etag and etag:sub(1, 1) == '"' then res:header("ETag", "W/" .. etag) end
end

local function on_head(settings, req, res, body)
  if not is_candidate(settings, res, body) then return end
  vary(res, "Accept-Encoding")
  local coding = settings.choose(req:header "accept-encoding")
  if not coding then return end
  weaken_etag(res)
  res:header("Content-Encoding", coding)
  res:header("Content-Length", nil)
  -- These fields describe the uncompressed body.
  res:header("Accept-Ranges", nil)
  res:header("Content-MD5", nil)
  if body then
    res.body = compress.encoder(coding, settings.levels[coding]):finish(body)
  elseif req.method ~= "HEAD" then
    res.encoder = compress.encoder(coding, settings.levels[coding])
  end
end

-- `web.compress([options])` returns middleware. `min`: the minimum length of a body whose length is known, in bytes,
-- 1024 by default; `types`: a list of media types or groups such as `"text/*"`, or a function that is called with a
-- type and returns whether to compress; `level`: as for `compress.encoder`, or a table of levels by coding; `codings`:
-- the codings to use, in order of preference, out of `"br"`, `"gzip"` and `"deflate"`.
return function(opts)
  local settings = read_options(options.check("web.compress", 1, opts, OPTIONS))
  return function(req, res, next)
    res:on_head(function(r, body) on_head(settings, req, r, body) end)
    return next()
  end
end
