#!/usr/bin/env node
// Starts the program that the package of this platform carries, and gives it everything that this
// process got: arguments, environment, streams and signals.
"use strict";

const { optionalDependencies } = require("../package.json");

const platform = `${process.platform}-${process.arch}`;
const program = process.platform === "win32" ? "bowline.exe" : "bowline";
const packages = Object.keys(optionalDependencies).filter((name) =>
  [platform, `${platform}-musl`].includes(name.split("/")[1]),
);

start(findProgram(), process.argv.slice(2));

function findProgram() {
  const found = packages.flatMap((name) => {
    try {
      return [{ name, file: require.resolve(`${name}/bin/${program}`) }];
    } catch {
      return [];
    }
  });
  // Old package managers install the packages of both C libraries.
  const usable = found.length > 1 ? found.filter(({ name }) => name.endsWith("-musl") === usesMusl()) : found;
  if (usable.length > 0) {
    return usable[0].file;
  }
  if (packages.length === 0) {
    fail(`there is no package for ${platform}. \`cargo install bowline-cli\` builds the program.`);
  }
  fail(
    `the package ${packages.join(" or ")} is not installed; it has the program for this platform.\n` +
      "It is an optional dependency: install again without --omit=optional (or --no-optional),\n" +
      "and on the platform where it runs.",
  );
}

function usesMusl() {
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime === undefined;
}

function start(file, args) {
  // Node 22.15 and newer can become the program, except on Windows.
  if (typeof process.execve === "function" && process.platform !== "win32") {
    process.execve(file, [file, ...args], process.env);
  }
  const { spawn } = require("node:child_process");
  const { isatty } = require("node:tty");
  const child = spawn(file, args, { stdio: "inherit" });
  child.on("error", (error) => fail(`${file} cannot be started: ${error.message}`));

  // The terminal interrupts the program itself, which ends at once if it is interrupted twice.
  const fromTerminal = [0, 1, 2].some(isatty) ? ["SIGINT", "SIGQUIT"] : [];
  const signals = ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT"];
  for (const signal of process.platform === "win32" ? ["SIGINT"] : signals) {
    process.on(signal, () => {
      if (process.platform !== "win32" && !fromTerminal.includes(signal)) {
        child.kill(signal);
      }
    });
  }

  child.on("exit", (code, signal) => {
    if (signal === null) {
      process.exit(code);
    }
    // Whoever waits for this process sees how the program ended.
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function fail(message) {
  require("node:fs").writeSync(2, `bowline: ${message}\n`);
  process.exit(1);
}
