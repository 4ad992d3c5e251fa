/* A stock interpreter for tests with a Lua version that Debian does not have. tests/stock.sh compiles it with the
   unchanged sources of Lua. Usage: `stock [-e CHUNK | -l MODULE]… [SCRIPT [ARG]…]`. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lauxlib.h"
#include "lua.h"
#include "lualib.h"

static int handler(lua_State *L) {
  const char *message = luaL_tolstring(L, 1, NULL);
  luaL_traceback(L, L, message, 1);
  return 1;
}

/* Calls a function with as many arguments as `arguments` says; both are on the stack. Prints the error if it fails. */
static int run(lua_State *L, int arguments) {
  int base = lua_gettop(L) - arguments;
  int status;
  lua_pushcfunction(L, handler);
  lua_insert(L, base);
  status = lua_pcall(L, arguments, 0, base);
  if (status != LUA_OK) {
    fprintf(stderr, "lua: %s\n", lua_tostring(L, -1));
    lua_pop(L, 1);
  }
  lua_remove(L, base);
  return status;
}

static int loaded(lua_State *L, int status, int arguments) {
  if (status != LUA_OK) {
    fprintf(stderr, "lua: %s\n", lua_tostring(L, -1));
    return status;
  }
  lua_insert(L, -1 - arguments);
  return run(L, arguments);
}

/* The whole program. `main` calls it in protected mode, so errors outside of scripts, such as a lack of memory, are
   caught too. */
static int program(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = (char **)lua_touserdata(L, 2);
  int script = 1;
  int i;
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN);
  while (script + 1 < argc && (!strcmp(argv[script], "-e") || !strcmp(argv[script], "-l"))) script += 2;
  lua_createtable(L, argc, script);
  for (i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - script);
  }
  lua_setglobal(L, "arg");
  for (i = 1; i < script; i += 2) {
    const char *text = argv[i + 1];
    int status;
    if (argv[i][1] == 'e') {
      status = loaded(L, luaL_loadbuffer(L, text, strlen(text), "=(command line)"), 0);
    } else {
      lua_getglobal(L, "require");
      lua_pushstring(L, text);
      status = run(L, 1);
    }
    if (status != LUA_OK) return 0;
  }
  if (script < argc) {
    const char *path = strcmp(argv[script], "-") ? argv[script] : NULL;
    luaL_checkstack(L, argc, "too many arguments");
    for (i = script + 1; i < argc; i++) lua_pushstring(L, argv[i]);
    if (loaded(L, luaL_loadfile(L, path), argc - script - 1) != LUA_OK) return 0;
  }
  lua_pushboolean(L, 1);
  return 1;
}

int main(int argc, char **argv) {
  lua_State *L = luaL_newstate();
  int good;
  if (L == NULL) return EXIT_FAILURE;
  lua_pushcfunction(L, program);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  if (lua_pcall(L, 2, 1, 0) != LUA_OK) {
    fprintf(stderr, "lua: %s\n", lua_tostring(L, -1));
    lua_pushboolean(L, 0);
  }
  good = lua_toboolean(L, -1);
  lua_close(L);
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
