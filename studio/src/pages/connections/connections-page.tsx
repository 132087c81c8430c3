/** Connections: what Azure's coordinates of a resource stand for here. */
import { Button, Text } from "@mantine/core";
import { queryOptions, useQuery } from "@tanstack/react-query";
import type { ColumnDef } from "@tanstack/react-table";
import { useState } from "react";

import { api, data, type Schemas } from "@/api/client";
import { queryClient } from "@/api/queries";
import { useMay } from "@/api/session";
import { Code } from "@/components/code";
import { Confirm } from "@/components/confirm";
import { actionsColumn } from "@/components/data-table";
import { ListPage } from "@/components/list-page";
import { Empty } from "@/components/states";
import { Ago } from "@/components/time";
import { useWorkspace } from "@/lib/workspace";

type Connection = Schemas["ConnectionView"];

const connections = (workspace: string) =>
  queryOptions({
    queryKey: ["connections", workspace],
    queryFn: ({ signal }) =>
      data(api.GET("/api/v1/workspaces/{workspace}/connections", { params: { path: { workspace } }, signal })),
  });

const placeOf = (each: Connection) =>
  [each.subscription_id, each.resource_group, each.resource_name].filter(Boolean).join(" / ");
const settingsOf = (each: Connection) =>
  Object.entries(each.config).map(([key, value]) => `${key}: ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ");

export function ConnectionsPage() {
  const { workspace } = useWorkspace();
  const mayWrite = useMay()("targets.write");
  const { data: found, error, refetch } = useQuery(connections(workspace));
  const [removed, setRemoved] = useState<Connection | null>(null);
  const columns: ColumnDef<Connection>[] = [
    { header: "Name", accessorKey: "name", cell: ({ row }) => <Text size="sm" fw={500}>{row.original.name}</Text> },
    { header: "Kind", accessorKey: "kind" },
    { id: "coordinates", header: "Azure's coordinates", accessorFn: placeOf },
    { id: "settings", header: "Stands for", accessorFn: settingsOf },
    { header: "Changed", accessorKey: "changed_at", cell: ({ row }) => <Ago time={row.original.changed_at} /> },
  ];
  if (mayWrite) {
    columns.push(
      actionsColumn((row) => (
        <Button variant="subtle" color="red" onClick={() => setRemoved(row)} aria-label={`Remove ${row.name}`}>
          Remove
        </Button>
      )),
    );
  }
  return (
    <ListPage
      title="Connections"
      description="Code names resources by a resource group and a name. A connection says which cluster, machine or account that is here."
      rows={found?.connections}
      error={error}
      retry={() => void refetch()}
      columns={columns}
      empty={
        <Empty title="No connections">
          Code that attaches a machine or a cluster by its resource group and name needs one:
          <Code text="windlass connection add vm gpu-vm --resource-group lab --vm-name gpu --address 10.0.0.7" />
        </Empty>
      }
    >
      {removed && (
        <Confirm
          opened
          onClose={() => setRemoved(null)}
          title={`Remove ${removed.name}?`}
          action="Remove"
          run={async () => {
            await api.DELETE("/api/v1/workspaces/{workspace}/connections/{name}", {
              params: { path: { workspace, name: removed.name } },
            });
            await queryClient.invalidateQueries({ queryKey: ["connections", workspace] });
          }}
        >
          Its credentials are deleted too. Code that names its coordinates is refused until there is another one.
        </Confirm>
      )}
    </ListPage>
  );
}
