-- The service of main.lua. It never takes its message, so its mailbox is not empty, and the scheduler resumes it after
-- each yield.

for i = 0, 5 do
  print("service" .. i)
  coroutine.yield()
end
