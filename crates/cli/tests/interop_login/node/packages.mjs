// Imports the packages that the test command has installed elsewhere.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

// Imports packages from the `node_modules` that a variable names.
export function packagesIn(variable) {
  const folder = process.env[variable];
  if (!folder) throw new Error(`${variable} is not set`);
  const { resolve } = createRequire(path.join(folder, 'here.js'));
  return (name) => import(pathToFileURL(resolve(name)).href);
}
