/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The boundary of the library: defines the public calls that can fail. Inside, each failed attempt
 * leaves a line (base/error.h), even if the next attempt succeeds. The program sees the line only
 * if the call as a whole fails. So a call that succeeds does not change afar_last_error().
 */
#ifndef CLIENT_CALL_H
#define CLIENT_CALL_H

/* Notes that the call fails: the thread's last line becomes afar_last_error(), unless another
 * public call of the library made this one. */
__attribute__((cold)) void call_failed(void);

/* Put these around calls of the library by the library. */
void call_nest(void);
void call_unnest(void);

/*
 * Stands for a function's head, with its type, name, parameters, and once more the names of the
 * parameters:
 *
 *	PUBLIC_CALL(int, afar_noun_verb, (struct afar_noun *noun, unsigned flags), (noun, flags))
 *	{
 *		…
 *	}
 */
#define PUBLIC_CALL(type, name, parameters, arguments) \
	static type name##_body parameters;            \
	type name parameters                           \
	{                                              \
		type ret_ = name##_body arguments;     \
                                                       \
		if (ret_ < 0)                          \
			call_failed();                 \
		return ret_;                           \
	}                                              \
	static type name##_body parameters

/* Defines a public call that makes public calls itself. */
#define PUBLIC_CALL_OF_CALLS(type, name, parameters, arguments) \
	static type name##_body parameters;                     \
	type name parameters                                    \
	{                                                       \
		type ret_;                                      \
                                                                \
		call_nest();                                    \
		ret_ = name##_body arguments;                   \
		call_unnest();                                  \
		if (ret_ < 0)                                   \
			call_failed();                          \
		return ret_;                                    \
	}                                                       \
	static type name##_body parameters

#endif
