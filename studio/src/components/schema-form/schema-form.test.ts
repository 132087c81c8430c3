/** Fields, values, messages, commands and code from schemas: those of the kinds that the server has, and odd ones. */
import { describe, expect, test } from "vitest";

import { command, type Draft, pythonCode, updateCode, updateCommand } from "./equivalents";
import { groupsOf, readFields, type Schema, toChange, toRequest } from "./fields";
import { errorsOf, validate } from "./validation";

const cli = (...options: string[]) => ({ options, metavar: "", flags: {}, is_file: false });

const CLUSTER: Schema = {
  properties: {
    vm_size: { type: "string", default: "Standard_D2_v2", title: "Virtual machine size", format: "vm-size" },
    vm_priority: {
      enum: ["dedicated", "lowpriority"],
      type: "string",
      default: "dedicated",
      labels: { dedicated: "Dedicated", lowpriority: "Low priority" },
      cli: { options: ["--priority"], metavar: "dedicated|low", flags: {} },
    },
    min_nodes: { type: "integer", default: 0, minimum: 0, maximum: 100, title: "Min Nodes" },
    max_nodes: { type: "integer", default: 4, minimum: 0, maximum: 100, at_least: "min_nodes", unit: "nodes" },
    idle: { type: "integer", default: 1800, cli: cli("--idle-seconds") },
    docker: { type: "boolean", default: false, group: "containers", cli: cli("--docker") },
    allow: { type: "boolean", default: false, cli: cli("--allow/--refuse") },
    warm: { type: "boolean", default: true },
    for_run: { type: "boolean", default: false, hidden: true },
    kept: { type: "string", default: "", cli: cli("") },
    always: { const: true, default: true },
    tags: { type: "object", additionalProperties: { type: "string" }, default: {}, group: "advanced", cli: cli("") },
    names: { type: "array", items: { type: "string", minLength: 2 }, default: [] },
    image: { anyOf: [{ type: "string", pattern: "^[a-z]+$" }, { type: "null" }], default: null, examples: ["python"] },
    place: { $ref: "#/$defs/Place" },
  },
  $defs: { Place: { type: "object", properties: { rack: { type: "integer", maximum: 9 } }, required: ["rack"] } },
};
const SSH: Schema = {
  required: ["address"],
  properties: {
    address: { type: "string", cli: cli("-a", "--address") },
    port: { anyOf: [{ type: "integer", minimum: 1, maximum: 65535 }, { type: "null" }], default: null, cli: cli("-p", "--port") },
    login: {
      anyOf: [{ enum: ["agent", "password"], type: "string" }, { type: "null" }],
      default: null,
      group: "login",
      cli: { options: [""], metavar: "", flags: { agent: ["-g", "--use-agent", "With the agent."] } },
    },
    share: { type: "boolean", default: false },
  },
};
const LOGIN: Schema = {
  properties: {
    password: { anyOf: [{ type: "string", format: "password", writeOnly: true }, { type: "null" }], default: null },
    private_key: {
      anyOf: [{ type: "string", writeOnly: true }, { type: "null" }],
      default: null,
      format: "multiline",
      cli: { options: ["--private-key-file"], metavar: "FILE", flags: {}, is_file: true },
    },
  },
};
const cluster = readFields(CLUSTER);
const field = (name: string) => cluster.find((each) => each.name === name)!;

const draft = (changes: Partial<Draft>): Draft => ({
  kind: "cluster",
  name: "cpu",
  workspace: "default",
  isAttached: false,
  fields: cluster,
  secrets: [],
  values: {},
  given: [],
  files: {},
  slots: null,
  fingerprint: "",
  pin: "",
  ...changes,
});

describe("fields", () => {
  test("every type of a schema has one of the form", () => {
    const types = ["vm_size", "vm_priority", "min_nodes", "docker", "names", "tags", "place"].map((name) => field(name).type);
    expect(types).toEqual(["text", "choice", "integer", "boolean", "list", "map", "object"]);
  });

  test("constants and hidden fields are left out, unless they have a group", () => {
    const names = cluster.map(({ name }) => name);
    expect(names).toContain("tags");
    for (const hidden of ["for_run", "kept", "always"]) expect(names).not.toContain(hidden);
  });

  test("labels are titles, or the name in words", () => {
    expect([field("vm_size").label, field("min_nodes").label]).toEqual(["Virtual machine size", "Min nodes"]);
    expect(readFields({ properties: { share_gpus: { title: "Share GPUs" } } })[0]!.label).toBe("Share GPUs");
    expect(field("vm_priority").choices.map(({ label }) => label)).toEqual(["Dedicated", "Low priority"]);
  });

  test("secrets are known as such, also where they may be left out", () => {
    expect(readFields(LOGIN, "login").map(({ isSecret, isNullable, group }) => [isSecret, isNullable, group])).toEqual([
      [true, true, "login"],
      [true, true, "login"],
    ]);
  });

  test("groups: basics, login, others, advanced", () => {
    const all = [...cluster, ...readFields(LOGIN, "login")];
    expect(groupsOf(all).map(({ name }) => name)).toEqual(["", "login", "containers", "advanced"]);
  });

  test("`only` keeps the settings that may change", () => {
    expect(readFields(CLUSTER, "", ["max_nodes"]).map(({ name }) => name)).toEqual(["max_nodes"]);
  });
});

describe("values", () => {
  test("a request has no defaults and nothing empty", () => {
    const values = { vm_size: "Standard_D2_v2", max_nodes: 8, min_nodes: 0, names: ["ab", ""], tags: {}, image: "", place: { rack: 3 } };
    expect(toRequest(cluster, values)).toEqual({ max_nodes: 8, names: ["ab"], place: { rack: 3 } });
  });

  test("a value that is false by choice is sent if true is the default", () => {
    expect(toRequest(cluster, { warm: false, docker: false })).toEqual({ warm: false });
  });

  test("a change has what differs; emptied fields become null or their default", () => {
    const current = { max_nodes: 4, image: "python", idle: 600, tags: { a: "1" } };
    const values = { max_nodes: 4, image: undefined, idle: undefined, tags: {} };
    expect(toChange(cluster, current, values)).toEqual({ image: null, idle: 1800, tags: {} });
  });
});

describe("messages", () => {
  test("valid values have none", () => {
    expect(validate(cluster, { max_nodes: 8, vm_priority: "lowpriority", image: "python", place: { rack: 1 } })).toEqual({});
  });

  test.each([
    ["max_nodes", 101, "This is a whole number: at least 0, at most 100."],
    ["max_nodes", 1.5, "This is a whole number."],
    ["max_nodes", "many", "This is a whole number."],
    ["vm_priority", "cheap", "Choose one of Dedicated, Low priority."],
    ["names", ["a"], "At least 2 characters."],
    ["image", "UPPER", "It looks like python."],
    ["place", { rack: 12 }, "This is a whole number: at most 9."],
    ["tags", { "": "x" }, "Each value needs a name."],
  ])("%s = %j", (name, value, message) => {
    expect(validate(cluster, { [name]: value })).toEqual({ [name]: message });
  });

  test("a number that must not be less than another one, with its default too", () => {
    expect(validate(cluster, { min_nodes: 5 })).toEqual({ max_nodes: "This must not be less than min nodes (5)." });
    expect(validate(cluster, { min_nodes: 5, max_nodes: 5 })).toEqual({});
  });

  test("required fields, except in a change", () => {
    const ssh = readFields(SSH);
    expect(validate(ssh, {})).toEqual({ address: "Address is required." });
    expect(validate(ssh, {}, true)).toEqual({});
  });

  test("an error of the server names its fields", () => {
    const details = { invalid: { "config.vm_size": "there is no such size", "credentials.token": "too short" } };
    expect(errorsOf(details, "config")).toEqual({ vm_size: "There is no such size" });
    expect(errorsOf(details, "credentials")).toEqual({ token: "Too short" });
    expect(errorsOf({ fields: ["password"] }, "credentials")).toEqual({ password: "This is needed to log in." });
    expect(errorsOf({}, "config")).toEqual({});
  });
});

describe("the command", () => {
  test("has the options of the schema, spelled as on the command line", () => {
    const values = { vm_priority: "lowpriority", max_nodes: 8, idle: 600, docker: true, allow: true, warm: false, names: ["a b", "c"] };
    expect(command(draft({ values })).text.replaceAll(" \\\n  ", " ")).toBe(
      "windlass compute create cluster cpu --priority low --max-nodes 8 --idle-seconds 600 --docker --allow --no-warm --names 'a b' --names c",
    );
  });

  test("quotes what a shell would read", () => {
    const { text } = command(draft({ values: { vm_size: "x'; rm -rf $HOME" } }));
    expect(text).toBe(`windlass compute create cluster cpu --vm-size 'x'"'"'; rm -rf $HOME'`);
  });

  test("says what it has no option for", () => {
    expect(command(draft({ values: { tags: { a: "1" }, place: { rack: 1 } } })).missing).toEqual(["Tags", "Place"]);
  });

  test("has a word for what is required and still empty", () => {
    const { text } = command(draft({ kind: "ssh", name: "", isAttached: true, fields: readFields(SSH) }));
    expect(text).toBe("windlass compute attach ssh NAME --address ADDRESS");
  });

  test("never has a secret, and asks for it", () => {
    const { text } = command(
      draft({
        kind: "ssh",
        name: "box",
        workspace: "team",
        isAttached: true,
        fields: readFields(SSH),
        secrets: readFields(LOGIN),
        values: { address: "10.0.0.7", port: 2222, login: "agent", password: "hunter2", private_key: "-----BEGIN" },
        given: ["password", "private_key"],
        files: { private_key: "id key" },
        slots: 2,
        fingerprint: "SHA256:abc",
      }),
    );
    expect(text.replaceAll(" \\\n  ", " ")).toBe(
      "windlass compute attach ssh box -w team --address 10.0.0.7 --port 2222 --use-agent --ask-password " +
        "--private-key-file 'id key' --pin SHA256:abc --slots 2",
    );
  });

  test("of a change sets both sides of a flag, and clears with an empty text", () => {
    expect(updateCommand("cpu", "default", cluster, { docker: false, allow: false, image: null, max_nodes: 2 })).toBe(
      "windlass compute update cpu --max-nodes 2 --no-docker --refuse --image ''",
    );
  });
});

describe("the Python code", () => {
  const own = {
    class: "AmlCompute",
    arguments: { vm_size: "vm_size", max_nodes: "max_nodes", password: "admin_user_password" },
    always: ["vm_size", "max_nodes"],
  };

  test("has the class of the kind, with what it always needs", () => {
    expect(pythonCode(draft({ python: own, values: { max_nodes: 2 } }))).toBe(
      [
        "from windlass import AmlCompute, ComputeTarget, Workspace",
        "",
        "workspace = Workspace.from_config()",
        "configuration = AmlCompute.provisioning_configuration(",
        '    vm_size="Standard_D2_v2",',
        "    max_nodes=2,",
        ")",
        'target = ComputeTarget.create(workspace, "cpu", configuration)',
        "target.wait_for_completion(show_output=True)",
      ].join("\n"),
    );
  });

  test("has the settings of the kind, if the class has no argument for one", () => {
    const code = pythonCode(draft({ python: own, values: { docker: true } }));
    expect(code).toContain('KindProvisioningConfiguration("cluster", {"docker": True})');
  });

  test("prompts for secrets, and pins the identity", () => {
    const ssh = {
      class: "RemoteCompute",
      arguments: { address: "address", login: { agent: "use_agent" }, password: "password", private_key: "private_key_file", pin: "host_key" },
      always: [],
    };
    const given = draft({
      kind: "ssh",
      name: "box",
      isAttached: true,
      fields: readFields(SSH),
      secrets: readFields(LOGIN),
      values: { address: "10.0.0.7", login: "agent", password: "hunter2" },
      given: ["password"],
      pin: "ssh-ed25519 AAAA",
      python: ssh,
    });
    const code = pythonCode(given);
    expect(code).not.toContain("hunter2");
    expect(code).toContain('address="10.0.0.7",\n    use_agent=True,\n    password=getpass("Password: "),\n    host_key="ssh-ed25519 AAAA",');
    expect(pythonCode({ ...given, values: { ...given.values, share: true } })).toContain(
      'KindAttachConfiguration(\n    "ssh",\n    {"address": "10.0.0.7", "login": "agent", "share": True},\n    {"password": getpass("Password: ")},',
    );
  });

  test("changes settings", () => {
    expect(updateCode("cpu", "team", { max_nodes: 2, image: null })).toContain(
      'target = ComputeTarget(Workspace.get("team"), "cpu")\ntarget.update_settings(max_nodes=2, image=None)',
    );
  });
});
