-- `net.sendfile`: the received bytes and the results, with other senders, slow readers, and peers that have closed.

local t = require "tests.kit"
local file = require "lio.file"
local netkit = require "tests.kit.net"
local loop = require "lio.loop"
local net = require "lio.net"
local thread = require "lio.thread"

local dir = t.tmp()
local small = t.write(dir .. "/small", "0123456789")
local large_text = ("0123456789abcdef"):rep(256 * 1024)
local large = t.write(dir .. "/large", large_text)
local empty = t.write(dir .. "/empty", "")
local endless = dir .. "/endless" -- a sparse file of 1 GiB
do
  local f <close> = assert(io.open(endless, "w"))
  f:seek("set", (1 << 30) - 1)
  f:write "x"
end

local function received(a, b, ...)
  local results = table.pack(a:sendfile(...))
  a:shutdown "w"
  return b:recv "all", table.unpack(results, 1, results.n)
end

netkit.pair_test("for a path, sendfile opens, sends and closes the file", function(a, b)
  t.eq({ received(a, b, small) }, { "0123456789", true })
end)

netkit.pair_test("offset and length select a part of the file", function(a, b)
  assert(a:sendfile(small, 2, 3))
  assert(net.sendfile(a, small, 8))
  assert(a:sendfile(small, 0, 0))
  assert(a:sendfile(small, 100))
  assert(a:sendfile(small, 10))
  assert(a:sendfile(small, 0.0, 1.0))
  t.eq({ received(a, b, empty) }, { "234890", true })
end)

netkit.pair_test("a file of lio.file is sent, stays open, and is sent again", function(a, b)
  local f <close> = assert(file.open(small))
  assert(a:sendfile(f, 5))
  t.eq({ received(a, b, f, 0, 2) }, { "5678901", true })
  t.eq(f:is_closed(), false)
end)

netkit.pair_test("a file of io.open is sent with its latest writes, regardless of its position", function(a, b)
  local f <close> = assert(io.open(dir .. "/written", "w+"))
  f:write "hello"
  assert(a:sendfile(f))
  f:write " world"
  t.eq({ received(a, b, f) }, { "hellohello world", true })
  f:write "!"
  f:seek "set"
  t.eq(f:read "a", "hello world!", "sendfile does not change the file's position")
end)

netkit.test("files can be sent on a unix connection too", function()
  local one, other = netkit.raw_pair()
  local a, b = assert(net.wrap(one)), assert(net.wrap(other))
  local _ <close> = netkit.closing(a, b)
  t.eq({ received(a, b, small) }, { "0123456789", true })
end)

netkit.pair_test("a large file arrives whole, although the reader is slower", function(a, b)
  local done = netkit.promise(function() return a:sendfile(large) end)
  netkit.settle()
  local pieces = {}
  for index = 1, #large_text // 65536 do pieces[index] = b:recv(65536) end
  t.ok(table.concat(pieces) == large_text)
  t.eq({ done() }, { true })
end)

netkit.pair_test("files and messages of several senders are not mixed, and keep their order", function(a, b)
  local results = {
    netkit.promise(function() return a:sendfile(large) end),
    netkit.promise(function() return a:send("[", ("x"):rep(100000), "]") end),
    netkit.promise(function() return a:sendfile(small) end),
    netkit.promise(function() return a:sendfile(large, 16, 16) end),
    netkit.promise(function() return a:send "end" end),
  }
  local expected = large_text .. "[" .. ("x"):rep(100000) .. "]" .. "0123456789" .. "0123456789abcdef" .. "end"
  t.ok(b:recv(#expected) == expected)
  for _, result in ipairs(results) do t.eq({ result() }, { true }) end
end)

netkit.pair_test("the unsent part of a message is sent before a file", function(a, b)
  local one = netkit.promise(function() return a:send(large_text) end)
  local two = netkit.promise(function() return a:sendfile(small) end)
  t.ok(b:recv(#large_text + 10) == large_text .. "0123456789")
  t.eq({ one(), two() }, { true, true })
end)

netkit.pair_test("other tasks run while a file is sent to a fast reader", function(a, b)
  local turns, over = 0, false
  loop.fork(function()
    while not over do
      turns = turns + 1
      loop.sleep(0)
    end
  end)
  local read = netkit.promise(function() return b:recv(8 * #large_text) end)
  for _ = 1, 8 do assert(a:sendfile(large)) end
  t.ok(#read() == 8 * #large_text)
  over = true
  t.ok(turns >= 8 * #large_text // (512 * 1024) // 2, turns .. " turns of another task")
end)

netkit.pair_test("if the reader stops reading, the timeout returns the number of sent bytes", function(a, b)
  a:timeout(nil, 0.05)
  local ok, message, sent, code = a:sendfile(endless)
  t.eq({ ok, message, code }, { nil, "timeout", "timeout" })
  t.ok(sent > 0 and sent < 1 << 30, sent)
  a:shutdown "w"
  local got = 0
  for piece in function() return b:recv() end do got = got + #piece end
  t.eq(got, sent)
end)

netkit.pair_test("closing the connection wakes a task that sends a file", function(a)
  local done = netkit.promise(function() return a:sendfile(endless) end)
  netkit.settle()
  a:close()
  local ok, message, sent, code = done()
  t.eq({ ok, message, math.type(sent), code }, { nil, "closed", "integer", "closed" })
  t.eq({ a:sendfile(small) }, { nil, "closed", 0, "closed" })
end)

netkit.pair_test("a peer that closes ends the transfer with an error, and no signal ends the process", function(a, b)
  local done = netkit.promise(function() return a:sendfile(endless) end)
  netkit.settle()
  b:close()
  local ok, message, _, code = done()
  t.ok(not ok and (code == "closed" or code == "reset"), message)
  repeat ok, message, _, code = a:sendfile(small) until not ok
  t.ok(code == "closed" or code == "reset", message)
end)

netkit.pair_test("killing a task that sends a file releases the connection and closes the file", function(a, b)
  local _, before = t.descriptors()
  local sender = thread.spawn(function() a:sendfile(endless) end)
  netkit.settle()
  local after = netkit.promise(function() return a:sendfile(small) end)
  netkit.settle()
  thread.kill(sender)
  local read = netkit.promise(function() return b:recv "all" end)
  t.eq({ after() }, { true })
  a:shutdown "w"
  t.eq(read():sub(-10), "0123456789")
  t.eq(select(2, t.descriptors()), before)
end)

netkit.pair_test("if a file becomes shorter during its transfer, the call fails and does not hang", function(a, b)
  local path = t.write(dir .. "/shrinks", large_text:rep(8))
  local done = netkit.promise(function() return a:sendfile(path) end)
  netkit.settle()
  assert(io.open(path, "w")):close()
  local read = netkit.promise(function()
    local got = 0
    for piece in function() return b:recv() end do got = got + #piece end
    return got
  end)
  local ok, message, sent, code = done()
  t.eq({ ok, code }, { nil, "truncated" })
  t.ok(message:find "shorter", message)
  a:close()
  t.eq(read(), sent)
end)

netkit.pair_test("closing a file during its transfer ends the transfer", function(a)
  local f = assert(file.open(endless))
  local done = netkit.promise(function() return a:sendfile(f) end)
  netkit.settle()
  f:close()
  a:timeout(nil, 0.05)
  local other <close> = setmetatable({}, { __close = function() a:close() end })
  local ok, _, _, code = done()
  t.ok(not ok and (code == "closed" or code == "timeout") and other, code)
end)

netkit.pair_test("a range that exceeds the file is refused before anything is sent", function(a, b)
  t.eq({ a:sendfile(small, 5, 6) },
    { nil, "sendfile: the file has only 5 bytes after the offset", 0, "truncated" })
  t.eq({ a:sendfile(small, 50, 1) },
    { nil, "sendfile: the file has only 0 bytes after the offset", 0, "truncated" })
  t.eq(received(a, b, empty), "")
end)

netkit.pair_test("if a file cannot be opened or is not regular, the call fails and sends nothing", function(a)
  local ok, message, sent, code = a:sendfile(dir .. "/none")
  t.eq({ ok, sent, code }, { nil, 0, "not found" })
  t.ok(message:find "^open: ", message)
  t.eq({ select(3, a:sendfile(dir)) }, { 0, "not a file" })
  t.eq({ select(3, a:sendfile "/dev/zero") }, { 0, "not a file" })
  local pipe <close> = assert(io.popen "true")
  t.eq({ select(3, a:sendfile(pipe)) }, { 0, "not a file" })
  local f = assert(file.open(small))
  f:close()
  t.eq({ select(3, a:sendfile(f)) }, { 0, "closed" })
end)

netkit.pair_test("misuse raises an error that names the call and the argument", function(a)
  t.raises("bad argument #2 to 'sendfile' %(path or file expected, got nil%)", a.sendfile, a)
  t.raises("bad argument #2 to 'sendfile'", a.sendfile, a, {})
  t.raises("file expected, got lio.connection", a.sendfile, a, a)
  t.raises("bad argument #3 to 'sendfile' %(offset must be an integer of at least 0, not %-1%)",
    a.sendfile, a, small, -1)
  t.raises("bad argument #3 to 'sendfile'", a.sendfile, a, small, "1")
  t.raises("bad argument #4 to 'sendfile' %(length must be an integer of at least 0, not 1.5%)",
    a.sendfile, a, small, 0, 1.5)
  t.raises("bad argument #1 to 'sendfile' %(connection expected, got string%)", net.sendfile, small, small)
  t.eq(a:send "x", true, "no task holds the connection")
end)

t.finish()
