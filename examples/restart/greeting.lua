-- Change this file and save it: the server restarts, and clients notice only the new text.
return "Hello"
