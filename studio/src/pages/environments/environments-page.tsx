/** Registered environments: the latest version of each. */
import { Anchor, Button, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { queryClient } from "@/api/queries";
import { useMay } from "@/api/session";
import { FormModal } from "@/components/form-modal";
import { ListPage } from "@/components/list-page";
import { Empty } from "@/components/states";
import { Ago } from "@/components/time";
import { plural } from "@/lib/format";
import { useWorkspace } from "@/lib/workspace";
import { environmentOfDefinition, lines } from "../submit/draft";
import { type Environment, environments, register } from "./queries";

/** What an environment has, in a few words. */
export function summaryOf(view: Environment): string {
  const { image, dockerfile, interpreter, python_version, pip = [], conda = [] } = environmentOfDefinition(view);
  const packages = pip.length + conda.length;
  return [
    image ? `image ${image}` : dockerfile ? "Dockerfile" : "",
    interpreter ? `Python ${interpreter}` : python_version ? `Python ${python_version}` : "",
    packages ? plural(packages, "package") : "",
  ]
    .filter(Boolean)
    .join(", ");
}

export function EnvironmentsPage() {
  const { workspace, home } = useWorkspace();
  const may = useMay();
  const { data: found, error, refetch } = useQuery(environments(workspace));
  const [isCreating, setCreating] = useState(false);
  const columns: ColumnDef<Environment>[] = [
    {
      header: "Name",
      accessorKey: "name",
      cell: ({ row: { original } }) => (
        <Anchor component={Link} to={`${home}/environments/${encodeURIComponent(original.name)}`} size="sm" fw={500}>
          {original.name}
        </Anchor>
      ),
    },
    { header: "Latest version", accessorKey: "version" },
    { id: "content", header: "Content", accessorFn: summaryOf },
    { header: "By", accessorKey: "created_by" },
    { header: "Registered", accessorKey: "created_at", cell: ({ row }) => <Ago time={row.original.created_at} /> },
  ];
  return (
    <ListPage
      title="Environments"
      description="Python and packages under a name, in versions that never change. Built once on each machine. Names that begin with AzureML- are built in."
      actions={may("environments.write") && <Button onClick={() => setCreating(true)}>New environment</Button>}
      rows={found?.environments}
      error={error}
      retry={() => void refetch()}
      columns={columns}
      empty={
        <Empty title="No registered environments">
          A run can have packages without one. Register an environment to use the same packages under a name: here, by{" "}
          <code>Environment.register(ws)</code>, or by <code>windlass environment register</code>.
        </Empty>
      }
    >
      {isCreating && <NewEnvironment workspace={workspace} home={home} onClose={() => setCreating(false)} />}
    </ListPage>
  );
}

function NewEnvironment({ workspace, home, onClose }: { workspace: string; home: string; onClose: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [python, setPython] = useState("");
  const [pip, setPip] = useState("");
  return (
    <FormModal
      opened
      onClose={onClose}
      title="New environment"
      action="Register"
      isReady={name.trim() !== "" && (lines(pip).length > 0 || python.trim() !== "")}
      submit={async () => {
        const dependencies = [python.trim() ? `python=${python.trim()}` : "python", { pip: lines(pip) }];
        const made = await register(workspace, name.trim(), {
          python: { userManagedDependencies: false, condaDependencies: { name: "project_environment", dependencies } },
        });
        await queryClient.invalidateQueries({ queryKey: ["environments", workspace] });
        await navigate({ to: `${home}/environments/${encodeURIComponent(made.name)}` });
      }}
    >
      <TextInput label="Name" value={name} onChange={(event) => setName(event.currentTarget.value)} required data-autofocus />
      <TextInput label="Version of Python" placeholder="3.12" value={python} onChange={(event) => setPython(event.currentTarget.value)} />
      <Textarea
        label="pip packages"
        description="One on each line, as in requirements.txt."
        autosize
        minRows={4}
        value={pip}
        onChange={(event) => setPip(event.currentTarget.value)}
      />
    </FormModal>
  );
}
