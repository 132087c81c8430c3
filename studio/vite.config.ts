import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const server = process.env.WINDLASS_URL ?? "http://127.0.0.1:8266";
const built = fileURLToPath(new URL("../src/windlass/server/web/studio", import.meta.url));
const SMALLEST = 1024;

/** Writes a compressed file beside each that becomes smaller, for the server to send. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      for (const entry of readdirSync(built, { recursive: true, withFileTypes: true })) {
        const path = `${entry.parentPath}/${entry.name}`;
        if (!entry.isFile() || !/\.(css|js|json|svg|txt)$/.test(path)) continue;
        const content = readFileSync(path);
        if (content.length >= SMALLEST) writeFileSync(`${path}.gz`, gzipSync(content, { level: 9 }));
      }
    },
  };
}

// Addresses of assets are relative: the server sets <base href>, so that the studio works under any path of a proxy.
export default defineConfig({
  base: "./",
  plugins: [react(), compressed()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    outDir: built,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": { target: server, changeOrigin: true, headers: { origin: server } } } },
});
