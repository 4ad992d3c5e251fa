//! What the Lua suite cannot bring about: wrong bytes of every kind, and Lua without memory.
