// SPDX-License-Identifier: Apache-2.0
package dev.petra.launcher;

import java.util.Map;

/** The addresses and ports of a node, from its {@code cassandra.yaml} and {@code jvm.options}. */
record NodeSettings(
        String listenAddress, int storagePort, String rpcAddress, int nativePort, int jmxPort) {

    /** Takes them from the settings and options that the node is started with. */
    static NodeSettings of(NodeDirectory directory, Map<String, Object> yaml, JvmOptions options) {
        return new NodeSettings(
                text(yaml, CassandraYaml.LISTEN_ADDRESS),
                port(directory, yaml, CassandraYaml.STORAGE_PORT, 7000),
                text(yaml, CassandraYaml.RPC_ADDRESS),
                port(directory, yaml, CassandraYaml.NATIVE_PORT, 9042),
                options.jmxPort());
    }

    private static String text(Map<String, Object> yaml, String key) {
        Object value = yaml.get(key);
        return value == null ? "localhost" : value.toString();
    }

    private static int port(
            NodeDirectory directory, Map<String, Object> yaml, String key, int byDefault) {
        Object value = yaml.get(key);
        if (value == null) return byDefault;
        if (value instanceof Integer port) return port;
        throw new NodeException(directory.yaml() + " has a " + key + " that is no port: " + value);
    }
}
