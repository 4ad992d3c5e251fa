-- The service of main.lua in this folder. It never takes its message, so its mailbox is not empty, and it is resumed
-- after each yield.

for i = 0, 5 do
  print("service" .. i)
  coroutine.yield()
end
