-- The timer service, for configurations that name it. It does nothing: the scheduler itself delivers timers.

return {}
