addEventListener("load", () => {
  document.getElementById("time").textContent = Math.round(performance.now());
});
