-- `lio.compress`: encoders and decoders, compared with each other and with gzip(1).

local t = require "tests.kit"
local compress = require "lio.compress"

local ALL <const> = { "gzip", "deflate", "br" }
local TEXT <const> = ("The quick brown fox jumps over the lazy dog. "):rep(2000)

local function each(f)
  for _, coding in ipairs(ALL) do f(coding) end
end

t.test("an encoder and a decoder accept pieces of any size", function()
  each(function(coding)
    for _, piece in ipairs { 1, 7, 1000, #TEXT } do
      local encoder, decoder, out = compress.encoder(coding), compress.decoder(coding), {}
      for at = 1, #TEXT, piece * 100 do
        out[#out + 1] = decoder:write(encoder:write(TEXT:sub(at, at + piece * 100 - 1)))
      end
      local rest = encoder:finish()
      for at = 1, #rest, piece do out[#out + 1] = assert(decoder:write(rest:sub(at, at + piece - 1))) end
      out[#out + 1] = assert(decoder:finish())
      t.ok(table.concat(out) == TEXT, coding .. " in pieces of " .. piece)
    end
  end)
end)

t.test("gzip decodes the encoder's output, and the decoder decodes gzip's output", function()
  local path = t.write(t.tmp() .. "/x.gz", compress.encoder("gzip", 9):finish(TEXT))
  t.ok(t.run("gzip -dc " .. t.quote(path)).out == TEXT)
  local packed = t.run("gzip -c", TEXT).out
  t.ok(#packed > 20 and compress.decoder("gzip"):finish(packed) == TEXT)
end)

t.test("flush returns the output for all bytes that were written", function()
  each(function(coding)
    local encoder, decoder = compress.encoder(coding), compress.decoder(coding)
    for _, piece in ipairs { "one", "two", "three" } do
      t.eq(decoder:write(encoder:flush(piece)), piece, coding)
    end
    t.eq(decoder:write(encoder:finish()), "")
    t.eq(decoder:finish(), "")
  end)
end)

t.test("steps decode what has been fed, in pieces of less than 256 KiB", function()
  each(function(coding)
    local packed = compress.encoder(coding):finish(("\0"):rep(3000000))
    for _, size in ipairs { #packed, 1 } do
      local decoder, count, step_count = compress.decoder(coding, 1), 0, 0
      for at = 1, #packed, size do
        t.eq(select("#", decoder:feed(packed:sub(at, at + size - 1))), 0)
        for bytes in decoder.step, decoder do
          t.ok(#bytes < 256 * 1024 and not bytes:find "[^\0]", coding)
          count, step_count = count + #bytes, step_count + 1
        end
      end
      t.eq({ count, step_count > 12 }, { 3000000, true }, coding)
      t.eq({ decoder:step() }, {}, coding)
      t.eq(decoder:finish(), "")
      t.raises("the decoder is finished", decoder.step, decoder)
      t.raises("the decoder is finished", decoder.feed, decoder, "x")
    end
  end)
end)

t.test("a step takes at most 4 KiB of input", function()
  -- Each member decodes to nothing.
  local member = compress.encoder("gzip"):finish()
  local decoder, step_count = compress.decoder "gzip", 0
  decoder:feed(member:rep(4096))
  while decoder:step() do step_count = step_count + 1 end
  t.eq(step_count, #member)
end)

t.test("a failed step is final, and write decodes what has been fed before", function()
  each(function(coding)
    local decoder = compress.decoder(coding)
    decoder:feed "\255\255\255\255"
    for _ = 1, 2 do
      t.eq({ decoder:step() }, { nil, "step: the data is invalid in its coding", "corrupt" }, coding)
      decoder:feed "x"
    end
    t.eq(select(3, decoder:finish()), "corrupt", coding)
    local packed = compress.encoder(coding):finish(TEXT)
    decoder = compress.decoder(coding)
    decoder:feed(packed:sub(1, 50))
    t.eq((decoder:write(packed:sub(51)) or "") .. decoder:finish(), TEXT, coding)
  end)
end)

t.test("a call that would decode more than the limit fails, and so does every later call", function()
  each(function(coding)
    local packed = compress.encoder(coding):finish(("\0"):rep(1000000))
    t.ok(#packed < 5000)
    local decoder = compress.decoder(coding, 100000)
    for _ = 1, 2 do
      local bytes, message, code = decoder:write(packed)
      t.eq({ bytes == nil, message, code },
        { true, "write: the decoded data exceeds the limit", "too long" }, coding)
    end
    t.eq(select(3, decoder:finish()), "too long")
    t.eq(#compress.decoder(coding, 1000000):finish(packed), 1000000)
  end)
end)

t.test("invalid data and bytes after the end are corrupt; data that ends early is truncated", function()
  each(function(coding)
    local packed = compress.encoder(coding):finish "hello"
    t.eq(select(3, compress.decoder(coding):write("\255\255\255" .. packed)), "corrupt", coding)
    t.eq(select(3, compress.decoder(coding):write(packed .. "x")), "corrupt", coding)
    local decoder = compress.decoder(coding)
    t.ok(decoder:write(packed:sub(1, -2)))
    t.eq(select(3, decoder:finish()), "truncated", coding)
  end)
end)

t.test("an empty body decodes to an empty string", function()
  each(function(coding) t.eq(compress.decoder(coding):finish(), "") end)
end)

t.test("a higher level makes the output smaller", function()
  local seed, parts = 1, {}
  for i = 1, 20000 do
    seed = (seed * 1103515245 + 12345) % 2147483648
    parts[i] = seed >> 16 & 31
  end
  local text = table.concat(parts, " ")
  for coding, levels in pairs { gzip = { 1, 9 }, deflate = { 1, 9 }, br = { 0, 11 } } do
    local low = #compress.encoder(coding, levels[1]):finish(text)
    local high = #compress.encoder(coding, levels[2]):finish(text)
    t.ok(high < low, coding)
  end
end)

t.test("invalid arguments, and calls after finish, raise errors", function()
  t.raises("bad argument #1 to '.*encoder' %(coding must be", compress.encoder, "zip")
  t.raises("bad argument #1 to '.*decoder' %(coding must be", compress.decoder, "GZIP")
  t.raises("level must be 1 to 9, not 0", compress.encoder, "gzip", 0)
  t.raises("level must be 0 to 11, not 12", compress.encoder, "br", 12)
  t.raises("limit must be", compress.decoder, "br", 0)
  local encoder = compress.encoder "gzip"
  encoder:finish()
  t.raises("the encoder is finished", encoder.write, encoder, "x")
  t.raises("the encoder is finished", encoder.finish, encoder)
  local decoder = compress.decoder "gzip"
  decoder:finish()
  t.raises("the decoder is finished", decoder.write, decoder, "x")
  t.raises("lio.compress.decoder expected", decoder.write, encoder, "x")
end)

t.finish()
